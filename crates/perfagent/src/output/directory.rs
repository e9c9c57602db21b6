//! A directory that outputs are written to. It is opened once, before the capture begins: what happens to its path later redirects nothing.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

/// Mode of new files; the kernel applies the umask.
const MODE: u32 = 0o644;

/// An open directory. Clones share its descriptor.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    handle: Arc<OwnedFd>,
    path: PathBuf,
}

impl Directory {
    /// A directory that was opened, with its path for messages; empty for the current directory.
    pub(super) fn new(handle: OwnedFd, path: &Path) -> Self {
        Self { handle: Arc::new(handle), path: path.to_owned() }
    }

    /// The path of a name in it, for messages.
    pub(super) fn path_of(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    /// Creates a file under a name that is free. A link is no free name.
    pub(super) fn create(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(self, name, flags, Mode::from_raw_mode(MODE))?))
    }

    /// A file without a name, if the file system supports it and `/proc` is there to name the file later.
    pub(super) fn create_unnamed(&self) -> Option<File> {
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(self, ".", flags, Mode::from_raw_mode(MODE)).ok()?);
        fd_path(&file).symlink_metadata().is_ok().then_some(file)
    }

    /// Gives a file of [`Self::create_unnamed`] a name that is free.
    pub(super) fn name(&self, file: &File, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::linkat(CWD, fd_path(file), self, name, AtFlags::SYMLINK_FOLLOW)?)
    }

    /// Renames a file. What has the new name, also a link, is replaced.
    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(self, from, self, to)?)
    }

    /// Removes a name.
    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(self, name, AtFlags::empty())?)
    }

    /// Whether something has this name, also a link that leads nowhere.
    pub(super) fn has(&self, name: &OsStr) -> bool {
        rustix::fs::statat(self, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

/// The path that leads to an open file, whatever became of its name.
pub(super) fn fd_path(file: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
}

/// A name that nobody can guess: in a directory of all users another one may make files with names that are known before.
pub(super) fn temporary_name(name: &OsStr) -> OsString {
    use std::hash::{BuildHasher as _, Hasher as _, RandomState};
    let number = RandomState::new().build_hasher().finish();
    let start: String = name.to_string_lossy().chars().take(48).collect();
    format!(".{start}.{number:016x}.tmp").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_neither_followed_nor_free() {
        let folder = tempfile::tempdir().unwrap();
        let handle = File::open(folder.path()).unwrap();
        let directory = Directory::new(handle.into(), folder.path());
        std::os::unix::fs::symlink("elsewhere", folder.path().join("link")).unwrap();
        let (link, new) = (OsStr::new("link"), OsStr::new("new"));
        assert!(directory.has(link) && !directory.has(new));
        assert_eq!(directory.create(link).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        directory.create(new).unwrap();
        directory.rename(new, link).unwrap();
        assert!(folder.path().join("link").symlink_metadata().unwrap().is_file());
        assert!(!folder.path().join("elsewhere").exists());
        directory.remove(link).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
