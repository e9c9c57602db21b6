//! Files that are written in place, because they are read while they grow, and because what was written must be left when the process is
//! killed.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use super::destination::{Destination, OpenFile};
use super::directory::{Directory, temporary_name};
use super::names::Numbered;
use super::publish::{MAX_NUMBER, none_free};
use super::target::FileTarget;
use super::write::interval_time;

/// The place of such a file, opened when the capture begins. Clones are the same place.
#[derive(Clone, Debug)]
pub(crate) struct InPlace {
    opened: Result<OpenFile, Arc<io::Error>>,
    path: PathBuf,
    of_intervals: bool,
}

impl InPlace {
    /// Opens the directory of a path. `of_intervals`: each interval of the capture has a file of its own, `NAME-TIME.EXT`.
    pub(crate) fn open(path: PathBuf, of_intervals: bool) -> Self {
        let opened = OpenFile::open(&FileTarget::Path(path.clone())).map_err(Arc::new);
        Self { opened, path, of_intervals }
    }

    /// Creates the file of the capture or of an interval, and gives its path. A file or link that has the name is replaced; that of an interval gets
    /// the first free number instead.
    ///
    /// # Errors
    /// The error of the system call, also that of [`Self::open`]; [`io::ErrorKind::InvalidInput`] for a device or FIFO.
    pub(crate) fn create(&self, started: SystemTime) -> (PathBuf, io::Result<File>) {
        let file = match &self.opened {
            Err(error) => {
                return (self.path.clone(), Err(io::Error::new(error.kind(), Arc::clone(error))));
            }
            Ok(file) if self.of_intervals => {
                let since_epoch = started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                file.of_interval(&interval_time(i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX)))
            }
            Ok(file) => file.clone(),
        };
        match &file.0 {
            Destination::Named { directory, name, .. } => (file.path(), replace(directory, name)),
            Destination::Interval { directory, name } => create_first_free(directory, name),
            _ => {
                let error = io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
                (file.path(), Err(error))
            }
        }
    }
}

fn create_first_free(directory: &Directory, name: &Numbered) -> (PathBuf, io::Result<File>) {
    for number in 1..=MAX_NUMBER {
        let name = name.with(number);
        match directory.create(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return (directory.path_of(&name), created),
        }
    }
    let first = directory.path_of(&name.with(1));
    let failed = none_free(&first);
    (first, failed)
}

/// A file that exists may have other names, and be another user's: it is replaced, not emptied.
fn replace(directory: &Directory, name: &OsStr) -> io::Result<File> {
    match directory.create(name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let temporary = temporary_name(name);
            let file = directory.create(&temporary)?;
            match directory.rename(&temporary, name) {
                Ok(()) => Ok(file),
                Err(error) => {
                    let _not_needed = directory.remove(&temporary);
                    Err(error)
                }
            }
        }
        created => created,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn create(path: &Path) -> io::Result<File> {
        InPlace::open(path.to_owned(), false).create(SystemTime::now()).1
    }

    #[test]
    fn a_file_is_replaced_and_what_is_no_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "old").unwrap();
        std::fs::hard_link(at("file"), at("other name")).unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        create(&at("link")).unwrap();
        assert_eq!(std::fs::read(at("file")).unwrap(), b"");
        assert_eq!(std::fs::read(at("other name")).unwrap(), b"old");
        create(&at("new")).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4);
        let refused = |path: &str| create(Path::new(path)).unwrap_err().kind();
        assert_eq!(refused("/dev/null"), io::ErrorKind::InvalidInput);
        assert_eq!(refused("/no/such/file"), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_link_planted_later_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let place = InPlace::open(at("perf.data"), true);
        let (path, first) = place.create(SystemTime::UNIX_EPOCH);
        first.unwrap();
        std::fs::write(at("secret"), "old").unwrap();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("secret", &path).unwrap();
        let (again, second) = place.create(SystemTime::UNIX_EPOCH);
        second.unwrap();
        assert_eq!(path, at("perf-19700101T000000.000Z.data"));
        assert_eq!(again, at("perf-19700101T000000.000Z-2.data"));
        assert!(path.symlink_metadata().unwrap().is_symlink());
        assert!(again.symlink_metadata().unwrap().is_file());
        assert_eq!(std::fs::read(at("secret")).unwrap(), b"old");
    }
}
