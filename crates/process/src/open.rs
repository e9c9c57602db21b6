//! Opens exactly the file that a process maps, and no other.
//!
//! Every candidate is first opened with `O_PATH`, which neither blocks on a FIFO nor has an effect on a device. It is opened
//! for reading only if it is a regular file and the right one.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use sys::filemap::FileMap;
use sys::reopen::reopen;

use crate::identity::{DeviceAndInode, FileIdentity, device_and_inode};
use crate::maps;
use crate::open_failure::OpenFailure;

/// A file that was just opened. Whether it is kept open is decided later.
#[derive(Debug)]
pub(crate) struct Opened {
    pub file: File,
    pub identity: FileIdentity,
    /// The path by which it was found.
    pub found_at: PathBuf,
}

/// The two paths by which a mapped file may be found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paths<'a> {
    /// In the view of the process that maps it.
    pub in_target: &'a Path,
    /// In our own view, which is the right one if both are in the same mount namespace.
    pub here: &'a Path,
}

/// Opens the file behind the mapping at `range` of the process in `proc_dir`: through `map_files`, by its path in the
/// process's root, or by its path here, whichever leads to the wanted file first. If none does, the most specific reason is
/// returned.
pub(crate) fn open_mapping(
    proc_dir: &Path,
    range: (u64, u64),
    paths: Option<Paths<'_>>,
    wanted: DeviceAndInode,
) -> Result<Opened, OpenFailure> {
    let mut failure = OpenFailure::Gone;
    let mut attempt = |candidate: PathBuf| match open_exactly(&candidate, wanted) {
        Ok(opened) => Some(opened),
        Err(reason) => {
            failure = failure.max(reason);
            None
        }
    };
    let found = attempt(proc_dir.join(format!("map_files/{:x}-{:x}", range.0, range.1)));
    let found = found.or_else(|| {
        let Paths { in_target, here } = paths?;
        let inside = in_target.strip_prefix("/").ok()?;
        attempt(proc_dir.join("root").join(inside)).or_else(|| attempt(here.to_owned()))
    });
    found.ok_or(failure)
}

/// Opens `path` if it is the regular file with this device and inode.
pub(crate) fn open_exactly(path: &Path, wanted: DeviceAndInode) -> Result<Opened, OpenFailure> {
    let handle = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let stat = fstat(&handle)?;
    if !FileType::from_raw_mode(stat.st_mode).is_file() {
        return Err(OpenFailure::NotRegular);
    }
    let same = device_and_inode(&stat) == wanted;
    // Overlay and btrfs show one device and inode to stat and another in maps. If they differ, the file is mapped here to
    // see what maps shows. Empty files cannot be mapped.
    if !same && stat.st_size == 0 {
        return Err(OpenFailure::Replaced);
    }
    let file = reopen(&handle)?;
    if !same && as_mapped(&file) != Some(wanted) {
        return Err(OpenFailure::Replaced);
    }
    Ok(Opened { file, identity: FileIdentity::new(&stat, wanted), found_at: path.to_owned() })
}

/// Device and inode that `/proc/PID/maps` shows for this file, found by mapping it here.
fn as_mapped(file: impl AsFd) -> Option<DeviceAndInode> {
    let map = FileMap::new(file).ok()?;
    let address = map.as_ptr().addr() as u64;
    let mut found = None;
    let own = File::open("/proc/self/maps").ok()?;
    maps::for_each(own, |entry| {
        if (entry.start..entry.end).contains(&address) {
            found = Some((entry.dev_major, entry.dev_minor, entry.inode));
        }
    })
    .ok()?;
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(path: &Path) -> DeviceAndInode {
        device_and_inode(&rustix::fs::stat(path).unwrap())
    }

    #[test]
    fn opens_the_right_file_only() {
        let sh = Path::new("/bin/sh");
        let (major, minor, inode) = wanted(sh);
        let opened = open_exactly(sh, (major, minor, inode)).unwrap();
        assert_eq!(opened.identity.size, std::fs::metadata(sh).unwrap().len());
        assert_eq!(open_exactly(sh, (major, minor, inode + 1)).unwrap_err(), OpenFailure::Replaced);
        assert_eq!(open_exactly(sh, (major + 1, minor, inode)).unwrap_err(), OpenFailure::Replaced);
        assert_eq!(open_exactly(Path::new("/no/such"), (0, 0, 1)).unwrap_err(), OpenFailure::Gone);
        assert_eq!(open_exactly(Path::new("/dev/null"), (0, 0, 1)).unwrap_err(), OpenFailure::NotRegular);
        assert_eq!(open_exactly(Path::new("/tmp"), (0, 0, 1)).unwrap_err(), OpenFailure::NotRegular);
    }

    #[test]
    fn a_fifo_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(open_exactly(&path, (0, 0, 1)).unwrap_err(), OpenFailure::NotRegular);
    }

    #[test]
    fn a_mapping_shows_the_identity_of_its_file() {
        let path = Path::new("/bin/sh");
        assert_eq!(as_mapped(File::open(path).unwrap()), Some(wanted(path)));
    }
}
