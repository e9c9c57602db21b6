//! The mapped files of a program that may be its jitdump.
//!
//! A runtime maps its dump as code so that profilers see it, some before they write its first byte, and gives it any name. So the content
//! decides, and it is looked at on the thread that reads files. A file with the usual name counts before that.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use process::{Content, FileKind, Image, RegionKind};
use symbolization::{JitDump, JitDumpError};

/// Files of one program that are looked at. Code lies in few files that are not ELF.
const MAX: usize = 16;
/// One of this number of looks at an image that seems unchanged is done.
const SKIPPED: u64 = 64;

#[derive(Default)]
pub(super) struct DumpCandidates {
    files: Mutex<Vec<RegionKind>>,
    /// One of them is the jitdump, as far as is known.
    is_known: AtomicBool,
    /// What the image looked like when it was looked at, and how often it was not looked at since.
    looked: AtomicU64,
    skipped: AtomicU64,
}

impl DumpCandidates {
    /// Looks for files that are mapped by now.
    pub(super) fn look(&self, image: &Image) {
        let state = (image.regions().len() as u64) << 1 | u64::from(image.is_opening());
        let is_same = self.looked.swap(state, Ordering::Relaxed) == state;
        if is_same && !self.skipped.fetch_add(1, Ordering::Relaxed).is_multiple_of(SKIPPED) {
            return;
        }
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        for region in image.regions().iter() {
            let kind = region.kind();
            let is_it = match kind {
                RegionKind::File(file) => file.kind() == FileKind::NotElf && file.failure().is_none(),
                RegionKind::Opening(_) => kind.has_name_of_jit_dump(),
                _ => false,
            };
            if is_it && files.len() < MAX && !files.iter().any(|known| known.is_same_file(kind)) {
                self.is_known.fetch_or(kind.has_name_of_jit_dump(), Ordering::Relaxed);
                files.push(kind.clone());
            }
        }
    }

    /// Whether there are any.
    pub(super) fn any(&self) -> bool {
        !self.files.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Whether one of them is the jitdump, as far as is known.
    pub(super) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Opens the jitdump: the first file that begins as one, else one with the usual name. `None` if there is none by now. Reads files.
    pub(super) fn open(&self, ended: Option<SystemTime>) -> Option<Result<JitDump, JitDumpError>> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut named = None;
        for kind in &files {
            let Some(opened) = open(kind) else { continue };
            if opened.as_ref().is_ok_and(JitDump::is_one) {
                self.is_known.store(true, Ordering::Relaxed);
                named = Some(opened);
                break;
            }
            if kind.has_name_of_jit_dump() {
                named.get_or_insert(opened);
            }
        }
        Some(named?.map_err(JitDumpError::from).and_then(|file| JitDump::open(file, ended)))
    }
}

/// `None` if it is still to be opened.
fn open(kind: &RegionKind) -> Option<io::Result<File>> {
    let content = kind.file()?.open_content();
    Some(content.and_then(|content| match content {
        Content::File(file) => file.try_clone(),
        Content::Memory(_) => Err(io::ErrorKind::InvalidInput.into()),
    }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use process::{MappedFile, Region};
    use profile::{Avma, FileOffset};

    use super::*;

    fn image(paths: &[&Path]) -> Image {
        let region = |(at, path): (u64, &&Path)| {
            let kind = RegionKind::File(Arc::new(MappedFile::open(path).unwrap()));
            Region::new(Avma(at << 20), Avma((at << 20) + 0x1000), FileOffset(0), kind)
        };
        let regions = (1..).zip(paths).map(region).collect();
        Image::new(1, 1, "bun".to_owned(), None, regions)
    }

    #[test]
    fn the_file_that_begins_as_a_jitdump_is_one_whatever_its_name_is() {
        let folder = tempfile::tempdir().unwrap();
        let [other, dump, named] =
            ["other", "profile-12-KX7a9", "jit-12.dump"].map(|name| folder.path().join(name));
        std::fs::write(&other, [b'x'; 4096]).unwrap();
        std::fs::write(&dump, []).unwrap();
        let candidates = DumpCandidates::default();
        candidates.look(&image(&[&other, &dump, Path::new("/bin/sh")]));
        assert!(candidates.any() && candidates.open(None).is_none(), "nothing is written yet");
        assert!(!candidates.is_known());
        let words = [0x4A69_5444u32, 1, 40, 62, 0, 1].map(u32::to_ne_bytes).concat();
        std::fs::write(&dump, [&words[..], &[0; 16]].concat()).unwrap();
        assert!(candidates.open(None).unwrap().is_ok() && candidates.is_known());
        // One with the usual name is reported if it is none.
        std::fs::write(&named, [b'x'; 4096]).unwrap();
        let candidates = DumpCandidates::default();
        candidates.look(&image(&[&other, &named]));
        assert!(candidates.is_known() && candidates.open(None).unwrap().is_err());
        let candidates = DumpCandidates::default();
        candidates.look(&image(&[Path::new("/bin/sh")]));
        assert!(!candidates.any());
    }
}
