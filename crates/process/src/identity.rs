//! Which file a mapping shows.

use rustix::fs::Stat;

/// Device (major, minor) and inode.
pub(crate) type DeviceAndInode = (u32, u32, u64);

/// Which file it is, as the kernel shows it. Device and inode are those of `/proc/PID/maps` and of mapping events;
/// on some file systems `stat` shows others. Time and size are zero if the file could not be opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// Major number of the device.
    pub dev_major: u32,
    /// Minor number of the device.
    pub dev_minor: u32,
    /// Inode.
    pub inode: u64,
    /// Time of the last modification, ns since the epoch.
    pub mtime_ns: i64,
    /// Bytes of content.
    pub size: u64,
}

impl FileIdentity {
    /// The identity of a file with this stat, under the device and inode that mappings show.
    pub(crate) fn new(stat: &Stat, (dev_major, dev_minor, inode): DeviceAndInode) -> Self {
        let mtime_ns =
            stat.st_mtime.saturating_mul(1_000_000_000).saturating_add_unsigned(stat.st_mtime_nsec);
        Self { dev_major, dev_minor, inode, mtime_ns, size: u64::try_from(stat.st_size).unwrap_or(0) }
    }

    pub(crate) fn device_and_inode(&self) -> DeviceAndInode {
        (self.dev_major, self.dev_minor, self.inode)
    }
}

/// Device and inode that stat shows.
pub(crate) fn device_and_inode(stat: &Stat) -> DeviceAndInode {
    (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev), stat.st_ino)
}
