//! Which files of split units were looked for, and what was found, so that a later run knows whether they are still the same.
//!
//! Layout of the saved bytes, little-endian: nothing if no file was looked for; else the length of the program's path (u32) and the path, then of each
//! file the length of its path (u32), the path, whether it was there (1 byte), and its stamp.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::debug_file::{Search, open_inside};
use crate::stamp::Stamp;

/// With more files, nothing is saved: a later run would have to look at each.
const MAX_FILES: usize = 4096;

/// Files by their paths inside of the target's root.
#[derive(Debug, Default)]
pub(crate) struct SplitLog {
    files: BTreeMap<PathBuf, Option<Stamp>>,
    /// The program, beside which a package is looked for.
    program: PathBuf,
    /// There were too many, one was another one when it was opened again, or one may change without notice.
    is_useless: bool,
}

impl SplitLog {
    /// Remembers a file that was looked for.
    pub fn enter(&mut self, program: &Path, path: &Path, file: Option<&File>) {
        let stamp = file.and_then(Stamp::of);
        if self.files.is_empty() {
            self.program = program.to_owned();
        }
        self.is_useless |= self.program != program;
        self.is_useless |= self.files.len() >= MAX_FILES || stamp.is_some_and(|stamp| !stamp.is_settled());
        if self.is_useless {
            return;
        }
        match self.files.get(path) {
            Some(known) => self.is_useless = *known != stamp,
            None => drop(self.files.insert(path.to_owned(), stamp)),
        }
    }

    /// `None` if a later run could not tell whether the files are the same.
    pub fn save(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        if !self.files.is_empty() {
            put(&mut out, &self.program)?;
        }
        for (path, stamp) in &self.files {
            put(&mut out, path)?;
            out.push(stamp.is_some().into());
            out.extend_from_slice(&stamp.map_or([0; Stamp::LEN], Stamp::to_bytes));
        }
        (!self.is_useless).then_some(out)
    }

    /// Looks for the same files again. `None` if one is another one, or the bytes are damaged.
    pub fn restore(mut bytes: &[u8], search: &Search<'_>) -> Option<Self> {
        let mut log = Self::default();
        if !bytes.is_empty() && take(&mut bytes)? != search.path {
            return None;
        }
        while !bytes.is_empty() {
            let path = take(&mut bytes)?;
            let (was_there, rest) = bytes.split_first()?;
            let (stamp, rest) = rest.split_first_chunk::<{ Stamp::LEN }>()?;
            bytes = rest;
            let file = search.roots.first().and_then(|root| open_inside(root, path));
            let now = file.as_ref().and_then(Stamp::of).map(Stamp::to_bytes);
            if log.files.len() >= MAX_FILES || now != (*was_there != 0).then_some(*stamp) {
                return None;
            }
            log.enter(search.path, path, file.as_ref());
        }
        (!log.is_useless).then_some(log)
    }
}

fn put(out: &mut Vec<u8>, path: &Path) -> Option<()> {
    let path = path.as_os_str().as_bytes();
    out.extend_from_slice(&u32::try_from(path.len()).ok()?.to_le_bytes());
    out.extend_from_slice(path);
    Some(())
}

fn take<'b>(bytes: &mut &'b [u8]) -> Option<&'b Path> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (path, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *bytes = rest;
    Some(Path::new(OsStr::from_bytes(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(root: &Path) -> Search<'_> {
        Search {
            roots: vec![root],
            debug_dirs: &[],
            named_dirs: &[],
            supplementary_dirs: &[],
            path: Path::new("/program"),
        }
    }

    #[test]
    fn a_log_holds_as_long_as_its_files_are_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let old = Path::new("/a.dwo");
        std::fs::write(folder.path().join("a.dwo"), "content").unwrap();
        let file = open_inside(folder.path(), old).unwrap();
        testkit::until("the time of the file is in the past", || {
            Stamp::of(&file).is_some_and(|stamp| stamp.is_settled())
        });
        let mut log = SplitLog::default();
        let program = Path::new("/program");
        log.enter(program, old, Some(&file));
        let end_of_first = log.save().unwrap().len();
        log.enter(program, Path::new("/b.dwo"), None);
        let bytes = log.save().unwrap();
        let restored = |bytes: &[u8]| SplitLog::restore(bytes, &search(folder.path()));
        let holds = || restored(&bytes).and_then(|log| log.save());
        assert_eq!(holds(), Some(bytes.clone()));
        let whole = [4 + program.as_os_str().len(), end_of_first];
        assert!(
            (1..bytes.len()).all(|length| restored(&bytes[..length]).is_none() != whole.contains(&length))
        );
        let elsewhere = Search { path: Path::new("/moved"), ..search(folder.path()) };
        assert!(SplitLog::restore(&bytes, &elsewhere).is_none());
        std::fs::write(folder.path().join("b.dwo"), "now").unwrap();
        assert_eq!(holds(), None);
        std::fs::remove_file(folder.path().join("b.dwo")).unwrap();
        assert!(holds().is_some());
        std::fs::write(folder.path().join("a.dwo"), "CONTENT").unwrap();
        assert_eq!(holds(), None);
    }

    #[test]
    fn a_file_that_was_just_written_makes_a_log_useless() {
        // On a busy machine the time of a file may be in the past when it is entered.
        testkit::until("a useless log", || {
            let file = tempfile::NamedTempFile::new().unwrap();
            let mut log = SplitLog::default();
            log.enter(Path::new("/program"), file.path(), Some(file.as_file()));
            log.save().is_none()
        });
    }
}
