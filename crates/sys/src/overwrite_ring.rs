//! The ring of a perf event that keeps the newest records and overwrites the oldest: for events with `write_backward`, mapped for reading only.
//!
//! The kernel writes each record before the one that it wrote last, so a snapshot begins with the newest. While it is taken, the event writes nothing;
//! the bytes are copied first, and sizes are checked in the copy.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::perf;
use crate::ring::{DATA_HEAD, next_record};

/// A write that had begun before the event was paused may end meanwhile.
const TRIES: usize = 10;
const WORD: usize = size_of::<u64>();

/// The mapped ring of one event. Dropping it unmaps it.
#[derive(Debug)]
pub struct OverwriteRing {
    base: NonNull<u8>,
    page: usize,
    data: usize,
}

// SAFETY: the mapping belongs to this value alone and is not bound to the thread that made it.
unsafe impl Send for OverwriteRing {}

impl OverwriteRing {
    /// Maps `pages` pages (a power of two) of records of `event`.
    ///
    /// # Errors
    /// `EINVAL` if `pages` is not a power of two; `EPERM` if the ring exceeds the limit of locked memory; the errno of `mmap(2)`.
    pub fn map(event: BorrowedFd<'_>, pages: usize) -> io::Result<Self> {
        let page = crate::usage::page_size();
        let data = pages.checked_mul(page).filter(|_| pages.is_power_of_two());
        let Some((data, len)) = data.and_then(|data| Some((data, data.checked_add(page)?))) else {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        };
        // SAFETY: a new mapping at an address of the kernel's choice; no memory of ours is touched.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, event.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap returned address 0"))?;
        Ok(Self { base, page, data })
    }

    /// Passes the records that are in the ring to `each`, the newest first. `event` is the event that was mapped; it records nothing meanwhile.
    /// Returns how many records there were.
    ///
    /// # Errors
    /// The errno of the ioctl that pauses the event.
    pub fn snapshot(&self, event: BorrowedFd<'_>, each: impl FnMut(&[u8])) -> io::Result<u64> {
        perf::pause_output(event, true)?;
        let (head, bytes) = self.copy();
        let resumed = perf::pause_output(event, false);
        let records = newest_first(&bytes, head, each);
        resumed.map(|()| records)
    }

    /// Where the newest record begins, and all bytes.
    fn copy(&self) -> (u64, Vec<u8>) {
        let mut bytes = Vec::with_capacity(self.data);
        let mut head = self.head();
        for _ in 0..TRIES {
            bytes.clear();
            for word in 0..self.data / WORD {
                // SAFETY: `data` bytes from the second page on are mapped for as long as `self`, aligned to pages; a volatile read of a word that
                // the kernel may be writing gives some value, and what does not belong together is read again or refused by its size.
                let word =
                    unsafe { self.base.as_ptr().add(self.page).cast::<u64>().add(word).read_volatile() };
                bytes.extend_from_slice(&word.to_ne_bytes());
            }
            let now = self.head();
            if now == head {
                break;
            }
            head = now;
        }
        (head, bytes)
    }

    fn head(&self) -> u64 {
        // SAFETY: the control page is mapped for as long as `self`, the offset is a multiple of 8 inside of it, and the kernel writes this word as a
        // whole only. It is only loaded, which a mapping for reading allows.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(DATA_HEAD).cast()) }.load(Ordering::Acquire)
    }
}

impl Drop for OverwriteRing {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` made; no reference into it outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.page + self.data) };
    }
}

/// Passes on the records of a copy until the oldest one, which may be overwritten in part, or what was never written.
fn newest_first(bytes: &[u8], head: u64, mut each: impl FnMut(&[u8])) -> u64 {
    let (mut read, mut records, mut wrapped) = (0, 0, Vec::new());
    while read < bytes.len() {
        let at = (head.wrapping_add(read as u64) % bytes.len() as u64) as usize;
        let Some(record) = next_record(bytes, at, bytes.len() - read, &mut wrapped) else { break };
        read += record.len();
        records += 1;
        each(record);
    }
    records
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::perf::{Attr, DISABLED, SAMPLE_TIME, SW_CPU_CLOCK, TYPE_SOFTWARE, WRITE_BACKWARD, open};

    #[test]
    fn a_copy_is_read_from_its_newest_record_to_the_one_that_was_cut() {
        // Records of 16 bytes at 8, 24, and around the end; the oldest one of 24 has lost its end.
        let mut bytes = vec![0; 64];
        for (at, size, kind) in [(56, 16u8, 1u8), (8, 16, 2), (24, 16, 3), (40, 24, 4)] {
            (bytes[at], bytes[at + 6]) = (kind, size);
        }
        let mut kinds = Vec::new();
        assert_eq!(newest_first(&bytes, 64 * 5 - 8, |record| kinds.push((record[0], record.len()))), 3);
        assert_eq!(kinds, [(1, 16), (2, 16), (3, 16)]);
        assert_eq!(newest_first(&[0; 64], 0, |_| panic!("nothing was written")), 0);
    }

    #[test]
    fn the_newest_records_stay() {
        let attr = Attr {
            kind: TYPE_SOFTWARE,
            config: SW_CPU_CLOCK,
            sample_period: 20_000,
            sample_type: SAMPLE_TIME,
            flags: DISABLED | WRITE_BACKWARD,
            ..Attr::default()
        };
        let Ok(event) = open(&attr, 0, -1, None) else { testkit::skip!("perf events are not permitted") };
        let ring = OverwriteRing::map(event.as_fd(), 1).unwrap();
        let times = || {
            let mut times = Vec::new();
            let time = |record: &[u8]| u64::from_ne_bytes(record[8..16].try_into().unwrap());
            let records = ring.snapshot(event.as_fd(), |record| {
                if record[0] == 9 {
                    times.push(time(record));
                }
            });
            assert!(records.unwrap() >= times.len() as u64);
            times
        };
        assert!(times().is_empty());
        perf::enable(event.as_fd()).unwrap();
        // A page has room for 256 records of 16 bytes.
        testkit::until("the ring is full", || {
            testkit::burn(std::time::Duration::from_millis(20));
            times().len() > 240
        });
        let before = times();
        assert!(before.windows(2).all(|pair| pair[0] > pair[1]), "the newest first: {before:?}");
        let mut after = Vec::new();
        testkit::until("there are newer records", || {
            testkit::burn(std::time::Duration::from_millis(20));
            after = times();
            after[0] > before[0]
        });
        assert!(after.len() > 240, "{after:?}");
    }
}
