//! The place of a file that a runtime is about to write: that it can, and that what it writes is led nowhere else.
//!
//! A runtime opens its map as any program does: it follows links, and truncates what is there. Later versions end with SIGSEGV when they close a
//! map that they could not open. So the file is made for it, exclusively, if there is none.

use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Mode, OFlags, fchown, fstat, openat};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

use super::error::DotNetError;
use super::open_files::Place;
use crate::runtime_socket::{Owner, PEEK, remove_made};

/// A file of a process that is there for it to write. One that was made is removed when dropped, if it is still empty then.
pub(super) struct Claim {
    folder: OwnedFd,
    name: String,
    /// It stays open, so its number is not given to another file.
    file: OwnedFd,
    was_made: bool,
}

impl Claim {
    pub(super) fn make(folder: &OwnedFd, name: String, owner: Owner) -> Result<Self, DotNetError> {
        let attempt = "make the file of its perf map in its /tmp";
        let mode = fstat(folder).map_err(DotNetError::io(attempt))?.st_mode;
        let (by_others, sticky) = (0o022, 0o1000);
        if mode & by_others != 0 && mode & sticky == 0 {
            return Err(DotNetError::OpenFolder);
        }
        let folder = folder.try_clone().map_err(DotNetError::io(attempt))?;
        match openat(&folder, &name, PEEK, Mode::empty()) {
            Ok(file) => {
                let stat = fstat(&file).map_err(DotNetError::io(attempt))?;
                let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
                if !is_file || stat.st_uid != owner.uid || stat.st_nlink != 1 || stat.st_mode & 0o200 == 0 {
                    return Err(DotNetError::NotItsMap(name));
                }
                return Ok(Self { folder, name, file, was_made: false });
            }
            Err(Errno::NOENT) => {}
            Err(error) => return Err(DotNetError::io(attempt)(error)),
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        let file = openat(&folder, &name, flags, mode).map_err(DotNetError::io(attempt))?;
        let claim = Self { folder, name, file, was_made: true };
        let stat = fstat(&claim.file).map_err(DotNetError::io(attempt))?;
        if (stat.st_uid, stat.st_gid) != (owner.uid, owner.gid) {
            let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
            fchown(&claim.file, Some(uid), Some(gid)).map_err(DotNetError::io(attempt))?;
        }
        Ok(claim)
    }

    pub(super) fn place(&self) -> Option<Place> {
        fstat(&self.file).ok().map(|stat| (stat.st_dev, stat.st_ino))
    }

    /// Leaves the file to the runtime, also empty.
    pub(super) fn keep(mut self) {
        self.was_made = false;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.was_made {
            remove_made(&self.folder, &self.name, &self.file, |own| own.st_size == 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use rustix::fs::open;

    use super::*;
    use crate::runtime_socket::FOLDER;

    fn own() -> Owner {
        Owner { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }

    #[test]
    fn a_file_is_made_for_the_target_and_removed_if_it_stays_empty() {
        let folder = tempfile::tempdir().unwrap();
        let (open, path) = (open(folder.path(), FOLDER, Mode::empty()).unwrap(), folder.path().join("map"));
        let claim = |owner| Claim::make(&open, "map".to_owned(), owner);
        drop(claim(own()).unwrap());
        assert!(!path.exists());
        let made = claim(own()).unwrap();
        fs::write(&path, "10 10 name").unwrap();
        drop(made);
        assert!(path.exists(), "it was written");
        drop(claim(own()).unwrap());
        assert!(path.exists(), "it was there");
        fs::remove_file(&path).unwrap();
        claim(own()).unwrap().keep();
        assert!(path.exists(), "it is the runtime's");
        fs::remove_file(&path).unwrap();
        if rustix::process::geteuid().is_root() {
            let made = claim(Owner { uid: 12_345, gid: 54_321 }).unwrap();
            let meta = fs::metadata(&path).unwrap();
            assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o7022), (12_345, 54_321, 0));
            assert_eq!(made.place(), Some((meta.dev(), meta.ino())));
        }
    }

    #[test]
    fn what_would_lead_the_runtime_elsewhere_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (open, path) = (open(folder.path(), FOLDER, Mode::empty()).unwrap(), folder.path().join("map"));
        let other = folder.path().join("other");
        let refused =
            |owner| Claim::make(&open, "map".to_owned(), owner).err().map(|error| error.to_string());
        let not_its = |owner| refused(owner).is_some_and(|told| told.contains("no regular file of its user"));
        symlink("other", &path).unwrap();
        assert!(not_its(own()) && !other.exists(), "a link");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(not_its(own()), "a directory");
        fs::remove_dir(&path).unwrap();
        fs::write(&other, "precious").unwrap();
        fs::hard_link(&other, &path).unwrap();
        assert!(not_its(own()), "a second name of another file");
        fs::remove_file(&other).unwrap();
        assert!(not_its(Owner { uid: own().uid + 1, ..own() }), "a file of another user");
        fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
        assert!(not_its(own()), "it may not be written");
        fs::remove_file(&path).unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(refused(own()).unwrap().contains("sticky"));
        fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(refused(own()), None);
    }
}
