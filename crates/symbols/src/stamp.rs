//! What identifies the content of a file on disk.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A change within this time after the last one may not change the times of the file: file systems count time in steps.
const SETTLED: Duration = Duration::from_secs(2);

/// A write changes the stamp: no user can set the time of the last change (ctime).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Bytes of [`Self::to_bytes`].
    pub const LEN: usize = 7 * 8;

    pub fn of(file: &File) -> Option<Self> {
        let meta = file.metadata().ok()?;
        Some(Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }

    /// Whether any later change will change the stamp.
    pub fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let age = i64::try_from(now).unwrap_or(i64::MAX).saturating_sub(self.changed.0);
        age > SETTLED.as_secs().cast_signed()
    }

    /// Device and inode.
    pub fn place(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let times = [self.modified.0, self.modified.1, self.changed.0, self.changed.1];
        let times = times.map(i64::cast_unsigned);
        let words = [self.device, self.inode, self.size].into_iter().chain(times);
        let mut bytes = [0; Self::LEN];
        bytes.as_chunks_mut().0.iter_mut().zip(words).for_each(|(place, word)| *place = word.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_in_the_bytes() {
        let stamp = Stamp { device: 1, inode: 2, size: 3, modified: (4, 5), changed: (6, 7) };
        let others = [
            Stamp { device: 9, ..stamp },
            Stamp { inode: 9, ..stamp },
            Stamp { size: 9, ..stamp },
            Stamp { modified: (9, 5), ..stamp },
            Stamp { modified: (4, 9), ..stamp },
            Stamp { changed: (9, 7), ..stamp },
            Stamp { changed: (6, 9), ..stamp },
        ];
        assert!(others.iter().all(|other| other.to_bytes() != stamp.to_bytes()));
    }

    #[test]
    fn a_recent_change_is_not_settled() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed();
        let changed_at = |at| Stamp { device: 1, inode: 2, size: 3, modified: (0, 0), changed: (at, 0) };
        assert!(!changed_at(now).is_settled());
        assert!(!changed_at(now + 1000).is_settled(), "a clock that was set back");
        assert!(changed_at(now - 10).is_settled());
    }
}
