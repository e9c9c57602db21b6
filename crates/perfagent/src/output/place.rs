//! The place of an output: a regular file, or a device or FIFO that is written directly.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fstat, open, readlinkat};

/// The largest number of symbolic links to follow in a path, as in the kernel.
const MAX_LINKS: u32 = 40;

/// The place that a path leads to.
pub(super) enum Place {
    /// A device or FIFO, which is written directly.
    Direct { inode: Inode },
    /// A regular file, existing or not. All links are followed.
    Regular { path: PathBuf, inode: Option<Inode> },
}

/// (device, inode).
pub(super) type Inode = (u64, u64);

pub(super) fn inode_of(metadata: &Metadata) -> Inode {
    (metadata.dev(), metadata.ino())
}

/// The directory of a path; `.` for a bare name.
pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => Path::new("/"),
    }
}

/// The place of a path. Follows links.
pub(super) fn place_of(path: &Path) -> io::Result<Place> {
    use rustix::io::Errno;
    if path.as_os_str().is_empty() {
        return Err(Errno::NOENT.into());
    }
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") || path.file_name().is_none() {
        return Err(Errno::ISDIR.into());
    }
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Err(Errno::ISDIR.into()),
        Ok(metadata) if metadata.file_type().is_socket() => Err(Errno::NXIO.into()),
        Ok(metadata) if metadata.is_file() => Ok(Place::Regular {
            path: in_real_directory(end_of_links(path)?)?,
            inode: Some(inode_of(&metadata)),
        }),
        Ok(metadata) => Ok(Place::Direct { inode: inode_of(&metadata) }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Place::Regular { path: end_of_links(path)?, inode: None })
        }
        Err(error) => Err(error),
    }
}

/// The path without links among its directories.
fn in_real_directory(path: PathBuf) -> io::Result<PathBuf> {
    let directory = std::fs::canonicalize(parent(&path))?;
    Ok(path.file_name().map(|name| directory.join(name)).unwrap_or(path))
}

/// The path at the end of a chain of links, whether a file exists there or not. Links of other users are not followed in directories where
/// everybody may make them.
fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        // One handle is examined and read: the link cannot be replaced in between.
        let handle = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(link) = open(&path, handle, Mode::empty()) else { return Ok(path) };
        let stat = fstat(&link)?;
        if !FileType::from_raw_mode(stat.st_mode).is_symlink() {
            return Ok(path);
        }
        let directory = std::fs::metadata(parent(&path))?;
        if !may_follow(stat.st_uid, &directory) {
            let message = format!("{} is a link of another user in a directory of all users", path.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        let next = readlinkat(&link, "", Vec::new())?;
        path = parent(&path).join(OsStr::from_bytes(next.to_bytes()));
    }
    Err(rustix::io::Errno::LOOP.into())
}

/// The rule of the kernel's setting fs.protected_symlinks, which does not hold for reading a link, and may be off: a link in a sticky
/// directory that everybody can write to is followed only if it belongs to us or to the owner of the directory.
fn may_follow(owner: u32, directory: &Metadata) -> bool {
    const STICKY_AND_WRITABLE: u32 = 0o1002;
    directory.mode() & STICKY_AND_WRITABLE != STICKY_AND_WRITABLE
        || owner == rustix::process::geteuid().as_raw()
        || owner == directory.uid()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};

    use super::*;

    #[test]
    fn a_link_of_another_user_is_not_followed_in_a_directory_of_all() {
        if !rustix::process::geteuid().is_root() {
            testkit::skip!("needs root: it gives a link to another user");
        }
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
        let (secret, link) = (directory.path().join("secret"), directory.path().join("cpu.pb.gz"));
        symlink(&secret, &link).unwrap();
        let refused = |path: &Path| place_of(path).err().map(|error| error.kind());
        let leads_to = |path: &Path| match place_of(path) {
            Ok(Place::Regular { path, .. }) => path,
            _ => panic!("{} is not regular", path.display()),
        };
        assert_eq!(leads_to(&link), secret, "it is ours");
        lchown(&link, Some(65534), Some(65534)).unwrap();
        assert_eq!(refused(&link), Some(io::ErrorKind::PermissionDenied), "without a file");
        std::fs::write(&secret, "mine").unwrap();
        assert_eq!(refused(&link), Some(io::ErrorKind::PermissionDenied), "with a file");
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(leads_to(&link), secret.canonicalize().unwrap(), "nobody else can make links there");
    }
}
