//! The place of an output: a regular file, or a device or FIFO that is written directly.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

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
        Ok(metadata) if metadata.is_file() => {
            Ok(Place::Regular { path: std::fs::canonicalize(path)?, inode: Some(inode_of(&metadata)) })
        }
        Ok(metadata) => Ok(Place::Direct { inode: inode_of(&metadata) }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Place::Regular { path: end_of_links(path)?, inode: None })
        }
        Err(error) => Err(error),
    }
}

/// The path at the end of a chain of links, where no file exists.
fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match std::fs::read_link(&path) {
            Ok(next) => path = parent(&path).join(next),
            Err(_) => return Ok(path),
        }
    }
    Err(rustix::io::Errno::LOOP.into())
}
