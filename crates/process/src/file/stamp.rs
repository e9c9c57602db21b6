//! Stamps of a file's content, which tell whether the file has changed.

use std::fs::File;

use rustix::fs::{fstat, fstatfs};

/// `f_type` of file systems whose times do not come from the kernel (include/uapi/linux/magic.h and their own headers): a
/// program sets them (FUSE), or the maker of the image did (squashfs, erofs, cramfs, romfs, ISO 9660, FAT).
const WITHOUT_OWN_TIMES: [i64; 7] =
    [0x6573_5546, 0x7371_7368, 0xe0f5_e1e2, 0x28cd_3d45, 0x7275, 0x9660, 0x4d44];

/// The content that a file has, for caches that outlive this process. Every change of the content changes
/// [`Self::ctime_ns`], which no program can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentStamp {
    /// Device.
    pub device: u64,
    /// Inode.
    pub inode: u64,
    /// Bytes of content.
    pub size: u64,
    /// Time of the last modification, ns since the epoch.
    pub mtime_ns: i64,
    /// Time of the last change of content or attributes, ns since the epoch.
    pub ctime_ns: i64,
}

impl ContentStamp {
    /// None on file systems whose times do not come from the kernel.
    pub(super) fn of(file: &File) -> Option<Self> {
        if WITHOUT_OWN_TIMES.contains(&fstatfs(file).ok()?.f_type) {
            return None;
        }
        let stat = fstat(file).ok()?;
        let ns = |s: i64, ns: u64| s.saturating_mul(1_000_000_000).saturating_add_unsigned(ns);
        Some(Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).ok()?,
            mtime_ns: ns(stat.st_mtime, stat.st_mtime_nsec),
            ctime_ns: ns(stat.st_ctime, stat.st_ctime_nsec),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;
    use crate::MappedFile;

    #[test]
    fn the_stamp_is_of_the_content() {
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&path, "one").unwrap();
        let file = MappedFile::open(path.path()).unwrap();
        let before = file.stamp().unwrap();
        assert_eq!(file.stamp(), Some(before));
        let written = std::fs::metadata(&path).unwrap().modified().unwrap();
        let writer = File::options().write(true).open(&path).unwrap();
        let mut after = before;
        // The kernel's clock for files ticks every few ms.
        testkit::until("its time of change tells", || {
            writer.write_at(b"two", 0).unwrap();
            writer.set_modified(written).unwrap();
            after = file.stamp().unwrap();
            after.ctime_ns > before.ctime_ns
        });
        assert_eq!((after.size, after.mtime_ns), (before.size, before.mtime_ns));
    }
}
