//! A directory of what was learned of files, for later runs: names, lines and inlined calls of their functions.
//!
//! Guaranteed: the directory belongs to this user and nobody else can read it: its files tell which programs were looked at, and what others
//! write there would change names. A file appears whole or not at all, and is used only with the checksum that it was written with. Several
//! processes may share a directory; of two that write the same file, the last one wins. Deleting it costs time only.
//! Not here: what the files mean (`saved_names`).

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use sys::filemap::FileMap;

/// Larger files are not written.
const MAX_FILE: u64 = 64 << 20;
/// The bound is checked each time that this part of it was written: a check costs a system call for each file.
const TRIM_PARTS: u64 = 32;
const TEMPORARY: &str = ".new-";
const ENDING: &str = ".names";
/// A temporary file of this age is left over from a killed process.
const TEMPORARY_MAX_AGE: Duration = Duration::from_secs(3600);

/// Why a directory cannot be used, or a file not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordStoreError {
    /// A system call failed.
    #[error("{attempt} {path}: {source}; names are not kept for later runs, which take longer")]
    Io {
        /// The attempt.
        attempt: &'static str,
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The directory belongs to another user.
    #[error("{path} belongs to user {owner}, not to {user}: names are not kept there; set XDG_CACHE_HOME")]
    Owner {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The user of this process.
        user: u32,
    },
    /// The group or others may read or write the directory.
    #[error("{path} is open to others (mode {mode:o}): names are not kept there; chmod 700 it")]
    NotPrivate {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

/// The directory. Every access is relative to the descriptor that was checked on opening.
#[derive(Debug)]
pub struct RecordStore {
    directory: OwnedFd,
    path: PathBuf,
    cap_bytes: u64,
    /// Bytes written since the last check of the bound.
    untrimmed: AtomicU64,
    sequence: AtomicU64,
}

impl RecordStore {
    /// Bytes of all files without another bound.
    pub const CAP_BYTES: u64 = 512 << 20;

    /// The usual directory: `perf-agent/names` in `XDG_CACHE_HOME`, else in `.cache` of `HOME`. `None` if neither is an absolute path.
    #[must_use]
    pub fn default_dir() -> Option<PathBuf> {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
        Some(base.join("perf-agent/names"))
    }

    /// A directory, whose files together have at most so many bytes. A missing one is made with mode 0700.
    ///
    /// # Errors
    /// It cannot be made, belongs to another user or is open to others.
    pub fn open(path: &Path, cap_bytes: u64) -> Result<Self, RecordStoreError> {
        let failed = |attempt| {
            let path = path.to_owned();
            move |source: io::Error| RecordStoreError::Io { attempt, path, source }
        };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("creating"))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory =
            rustix::fs::open(path, flags, Mode::empty()).map_err(|e| failed("opening")(e.into()))?;
        let stat = rustix::fs::fstat(&directory).map_err(|e| failed("inspecting")(e.into()))?;
        let (user, path) = (rustix::process::geteuid().as_raw(), path.to_owned());
        if stat.st_uid != user {
            return Err(RecordStoreError::Owner { path, owner: stat.st_uid, user });
        }
        if stat.st_mode & 0o077 != 0 {
            return Err(RecordStoreError::NotPrivate { path, mode: stat.st_mode & 0o7777 });
        }
        // The first file that is written triggers a check of those that earlier processes left.
        let (sequence, untrimmed) = (AtomicU64::new(0), AtomicU64::new(cap_bytes));
        Ok(Self { directory, path, cap_bytes, untrimmed, sequence })
    }

    /// A file. It counts as used.
    pub(crate) fn load(&self, key: &str) -> Option<FileMap> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.directory, name(key), flags, Mode::empty()).ok()?;
        let stat = rustix::fs::fstat(&fd).ok()?;
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let ours = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o022 == 0;
        let fits = u64::try_from(stat.st_size).is_ok_and(|size| size <= MAX_FILE);
        if !regular || !ours || !fits {
            self.remove(key);
            return None;
        }
        let file = File::from(fd);
        // The modification time is the time of the last use. If setting it fails, the file is only removed earlier.
        let _ = file.set_modified(SystemTime::now());
        FileMap::new(&file).ok()
    }

    /// Removes a file that is not what it should be.
    pub(crate) fn remove(&self, key: &str) {
        let _ = rustix::fs::unlinkat(&self.directory, name(key), AtFlags::empty());
    }

    /// Writes a file, or replaces it. From time to time, removes the least recently used ones beyond the bound. What is too large is not
    /// written.
    pub(crate) fn store(&self, key: &str, bytes: &[u8]) -> Result<(), RecordStoreError> {
        let length = bytes.len() as u64;
        if length > MAX_FILE.min(self.cap_bytes) {
            return Ok(());
        }
        let failed = |attempt| {
            let path = self.path.clone();
            move |source: io::Error| RecordStoreError::Io { attempt, path, source }
        };
        let number = self.sequence.fetch_add(1, Ordering::Relaxed);
        let temporary = format!("{TEMPORARY}{}-{number}", std::process::id());
        let name = name(key);
        let written = self
            .write(&temporary, bytes)
            .and_then(|()| Ok(rustix::fs::renameat(&self.directory, &temporary, &self.directory, &name)?));
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&self.directory, &temporary, AtFlags::empty());
        }
        written.map_err(failed("writing to"))?;
        if self.untrimmed.fetch_add(length, Ordering::Relaxed) + length < self.cap_bytes / TRIM_PARTS {
            return Ok(());
        }
        self.untrimmed.store(0, Ordering::Relaxed);
        self.trim(&name).map_err(failed("tidying"))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.directory, name, flags, Mode::RUSR | Mode::WUSR)?;
        File::from(fd).write_all(bytes)
    }

    /// Removes files, the least recently used first, until the bound holds. `keep` was just written.
    fn trim(&self, keep: &str) -> io::Result<()> {
        let mut files = Vec::new();
        let mut total = 0;
        for entry in rustix::fs::Dir::read_from(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name().to_owned();
            let stat = rustix::fs::statat(&self.directory, &name, AtFlags::SYMLINK_NOFOLLOW);
            let Some(stat) =
                stat.ok().filter(|s| FileType::from_raw_mode(s.st_mode) == FileType::RegularFile)
            else {
                continue;
            };
            let temporary = name.to_bytes().starts_with(TEMPORARY.as_bytes());
            if temporary && age(&stat) > TEMPORARY_MAX_AGE {
                let _ = rustix::fs::unlinkat(&self.directory, &name, AtFlags::empty());
            } else if !temporary && name.to_bytes().ends_with(ENDING.as_bytes()) {
                let size = u64::try_from(stat.st_size).unwrap_or(0);
                total += size;
                if name.to_bytes() != keep.as_bytes() {
                    files.push(((stat.st_mtime, stat.st_mtime_nsec), size, name));
                }
            }
        }
        files.sort();
        for (_, size, name) in files {
            if total <= self.cap_bytes {
                break;
            }
            if rustix::fs::unlinkat(&self.directory, &name, AtFlags::empty()).is_ok() {
                total -= size;
            }
        }
        Ok(())
    }
}

fn name(key: &str) -> String {
    format!("{key}{ENDING}")
}

fn age(stat: &Stat) -> Duration {
    let modified = UNIX_EPOCH + Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0));
    SystemTime::now().duration_since(modified).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn names(path: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(path).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn private() -> tempfile::TempDir {
        tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir().unwrap()
    }

    #[test]
    fn a_file_is_private_and_comes_back_and_a_later_one_replaces_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/names");
        let store = RecordStore::open(&path, 1 << 20).unwrap();
        assert!(store.load("one").is_none());
        for content in [b"first", b"other"] {
            store.store("one", content).unwrap();
            assert_eq!(*store.load("one").unwrap(), *content);
        }
        assert_eq!(names(&path), ["one.names"]);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join("one.names"))), (0o700, 0o600));
        store.remove("one");
        assert!(store.load("one").is_none());
    }

    #[test]
    fn a_directory_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o750)).unwrap();
        let error = RecordStore::open(folder.path(), 1 << 20).unwrap_err();
        assert!(error.to_string().contains("chmod 700"), "{error}");
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(matches!(RecordStore::open(&file, 1 << 20), Err(RecordStoreError::Io { .. })));
    }

    #[test]
    fn links_and_files_that_others_may_write_are_not_read() {
        let folder = private();
        let store = RecordStore::open(folder.path(), 1 << 20).unwrap();
        std::fs::write(folder.path().join("target"), "text").unwrap();
        symlink("target", folder.path().join("link.names")).unwrap();
        assert!(store.load("link").is_none());
        store.store("open", b"text").unwrap();
        std::fs::set_permissions(folder.path().join("open.names"), Permissions::from_mode(0o622)).unwrap();
        assert!(store.load("open").is_none());
        assert_eq!(names(folder.path()), ["link.names", "target"]);
    }

    #[test]
    fn the_least_recently_used_files_go_first_and_foreign_ones_stay() {
        let folder = private();
        let store = RecordStore::open(folder.path(), 3000).unwrap();
        for (age_s, key) in [(400, "a"), (300, "b"), (200, "c")] {
            store.store(key, &[0; 1000]).unwrap();
            let file = File::options().write(true).open(folder.path().join(name(key))).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age_s)).unwrap();
        }
        let left_over = folder.path().join(format!("{TEMPORARY}1-1"));
        std::fs::write(&left_over, [0; 9000]).unwrap();
        let hours_ago = SystemTime::now() - Duration::from_secs(9999);
        File::options().write(true).open(&left_over).unwrap().set_modified(hours_ago).unwrap();
        std::fs::write(folder.path().join("foreign"), [0; 9000]).unwrap();
        // Used again.
        assert!(store.load("a").is_some());
        store.store("d", &[0; 1000]).unwrap();
        assert_eq!(names(folder.path()), ["a.names", "c.names", "d.names", "foreign"]);
        store.store("large", &[0; 3001]).unwrap();
        assert!(store.load("large").is_none());
    }
}
