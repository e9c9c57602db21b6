//! Keys of cached tables.

use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

/// Bytes of [`Owner`].
pub(crate) const HEADER_LEN: usize = 9 * 8;
/// A change within this time after the last one may not change the timestamp: file systems count time in steps.
const SETTLED: Duration = Duration::from_secs(2);

/// Identifies the content of a file. A write changes the stamp: no user can set the time of the last change (ctime).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
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

impl Stamp {
    /// Whether any later change would change the stamp.
    pub(crate) fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let age = i64::try_from(now).unwrap_or(i64::MAX).saturating_sub(self.ctime_ns);
        age > SETTLED.as_nanos() as i64
    }
}

/// A hash of all bytes of a file and the cache's secret. Equal files have equal hashes. Without the secret, nobody can
/// construct another file with the same hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest {
    pub(crate) hash: u64,
    pub(crate) size: u64,
}

/// The key of a cached table. A build-id is not a key: the author of a file can write any build-id into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheKey {
    /// The file and the time of its last change.
    File(Stamp),
    /// The content.
    Content(Digest),
}

impl CacheKey {
    /// The file name in the cache. All contents of one file have one name: a new table replaces the older one.
    pub(crate) fn file_name(&self) -> String {
        match self {
            Self::File(stamp) => format!("file-{:x}-{:x}.rows", stamp.device, stamp.inode),
            Self::Content(digest) => format!("content-{:016x}.rows", digest.hash),
        }
    }
}

/// The header of a cached table: the keys that find it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    pub stamp: Option<Stamp>,
    pub digest: Option<Digest>,
}

impl Owner {
    pub(crate) fn is_found_by(&self, key: &CacheKey) -> bool {
        match key {
            CacheKey::File(stamp) => self.stamp.as_ref() == Some(stamp),
            CacheKey::Content(digest) => self.digest.as_ref() == Some(digest),
        }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = CacheKey> {
        self.stamp.map(CacheKey::File).into_iter().chain(self.digest.map(CacheKey::Content))
    }

    pub(crate) fn to_bytes(self) -> [u8; HEADER_LEN] {
        let stamp = self.stamp.map(|stamp| {
            let times = [stamp.mtime_ns.cast_unsigned(), stamp.ctime_ns.cast_unsigned()];
            [1, stamp.device, stamp.inode, stamp.size, times[0], times[1]]
        });
        let digest = self.digest.map(|digest| [1, digest.hash, digest.size]);
        let mut header = [0; HEADER_LEN];
        let words = stamp.unwrap_or_default().into_iter().chain(digest.unwrap_or_default());
        for (place, word) in header.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        header
    }

    pub(crate) fn from_bytes(header: &[u8]) -> Option<Self> {
        let words: Vec<u64> = header.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let [has_stamp, device, inode, size, mtime, ctime, has_digest, hash, length] = words[..] else {
            return None;
        };
        let (mtime_ns, ctime_ns) = (mtime.cast_signed(), ctime.cast_signed());
        Some(Self {
            stamp: (has_stamp == 1).then_some(Stamp { device, inode, size, mtime_ns, ctime_ns }),
            digest: (has_digest == 1).then_some(Digest { hash, size: length }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_a_stamp_matters() {
        let stamp = Stamp { device: 1, inode: 2, size: 3, mtime_ns: 4, ctime_ns: 5 };
        let others = [
            Stamp { device: 9, ..stamp },
            Stamp { inode: 9, ..stamp },
            Stamp { size: 9, ..stamp },
            Stamp { mtime_ns: 9, ..stamp },
            Stamp { ctime_ns: 9, ..stamp },
        ];
        let owner = Owner { stamp: Some(stamp), digest: None };
        assert!(owner.is_found_by(&CacheKey::File(stamp)));
        for other in others {
            assert!(!owner.is_found_by(&CacheKey::File(other)));
        }
    }

    #[test]
    fn an_empty_header_matches_no_key() {
        let zeros = Stamp { device: 0, inode: 0, size: 0, mtime_ns: 0, ctime_ns: 0 };
        let empty = Owner::from_bytes(&[0; HEADER_LEN]).unwrap();
        assert!(!empty.is_found_by(&CacheKey::File(zeros)));
        assert!(!empty.is_found_by(&CacheKey::Content(Digest { hash: 0, size: 0 })));
    }

    #[test]
    fn an_owner_survives_encoding() {
        let stamp = Stamp { device: 1, inode: 2, size: 3, mtime_ns: -4, ctime_ns: 5 };
        let digest = Digest { hash: u64::MAX, size: 7 };
        for owner in [
            Owner::default(),
            Owner { stamp: Some(stamp), digest: None },
            Owner { stamp: None, digest: Some(digest) },
            Owner { stamp: Some(stamp), digest: Some(digest) },
        ] {
            assert_eq!(Owner::from_bytes(&owner.to_bytes()), Some(owner));
        }
        assert_eq!(Owner::from_bytes(&[0; HEADER_LEN - 1]), None);
    }

    #[test]
    fn a_recent_change_is_not_settled() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
        let stamp = Stamp { device: 1, inode: 2, size: 3, mtime_ns: 0, ctime_ns: now };
        assert!(!stamp.is_settled());
        assert!(!Stamp { ctime_ns: now + 1_000_000_000_000, ..stamp }.is_settled(), "a clock set back");
        assert!(Stamp { ctime_ns: now - 10_000_000_000, ..stamp }.is_settled());
    }
}
