//! The ring buffer of a perf event, mapped into this process.
//!
//! One call visits at most the records that were in the ring when it began. The sizes of records are checked against
//! the bytes that the kernel reports; an inconsistent ring is emptied and its bytes are counted.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Offsets of `data_head` and `data_tail` in the kernel's `perf_event_mmap_page`.
pub(crate) const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

/// Bytes of `perf_event_header`: type, misc, size.
const HEADER: usize = 8;

/// The mapped ring of one event. Dropping it unmaps it.
#[derive(Debug)]
pub struct Ring {
    base: NonNull<u8>,
    page: usize,
    data: usize,
    wrapped: Vec<u8>,
}

/// The result of one [`Ring::drain`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Records passed to the callback.
    pub records: u64,
    /// Bytes dropped because of inconsistent sizes.
    pub malformed_bytes: u64,
}

// SAFETY: the mapping belongs to this value alone and is not bound to the thread that made it.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps `pages` pages (a power of two) of records of `event`.
    ///
    /// # Errors
    /// `EINVAL` if `pages` is not a power of two; `EPERM` if the ring exceeds the limit of locked memory; the errno of
    /// `mmap(2)`.
    pub fn map(event: BorrowedFd<'_>, pages: usize) -> io::Result<Self> {
        let page = crate::usage::page_size();
        let data = pages.checked_mul(page).filter(|_| pages.is_power_of_two());
        let Some((data, len)) = data.and_then(|data| Some((data, data.checked_add(page)?))) else {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        };
        // SAFETY: a new mapping at an address of the kernel's choice; no memory of ours is touched.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap returned address 0"))?;
        Ok(Self { base, page, data, wrapped: Vec::new() })
    }

    /// The capacity in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.data
    }

    /// Passes every record, including its header, to `each`, and frees its space in the ring.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8])) -> Drained {
        let mut drained = Drained::default();
        let head = self.position(DATA_HEAD).load(Ordering::Acquire);
        let mut tail = self.position(DATA_TAIL).load(Ordering::Relaxed);
        if head.wrapping_sub(tail) > self.data as u64 {
            drained.malformed_bytes = self.data as u64;
            tail = head;
        }
        let base = self.base;
        let data_len = self.data;
        // SAFETY: `data` bytes from the second page on are mapped for as long as `self`; the kernel writes only
        // outside of tail..head, and only bytes inside of it are read.
        let data = unsafe { std::slice::from_raw_parts(base.as_ptr().add(self.page), data_len) };
        while tail != head {
            let left = (head - tail) as usize;
            let Some(record) = next_record(data, tail as usize & (data_len - 1), left, &mut self.wrapped)
            else {
                drained.malformed_bytes += left as u64;
                tail = head;
                break;
            };
            each(record);
            drained.records += 1;
            tail += record.len() as u64;
        }
        self.position(DATA_TAIL).store(tail, Ordering::Release);
        drained
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the control page is mapped for as long as `self`, `offset` is a multiple of 8 inside of it, and
        // the kernel accesses these two words as whole words only.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }
}

/// The record at `at` of a ring with `left` filled bytes from there. A record that wraps around the end is assembled in
/// `wrapped`. None for an impossible size.
pub(crate) fn next_record<'a>(
    data: &'a [u8],
    at: usize,
    left: usize,
    wrapped: &'a mut Vec<u8>,
) -> Option<&'a [u8]> {
    let byte = |i: usize| data[(at + i) % data.len()];
    if left < HEADER {
        return None;
    }
    let size = usize::from(u16::from_le_bytes([byte(6), byte(7)]));
    if size < HEADER || !size.is_multiple_of(HEADER) || size > left {
        return None;
    }
    match data.get(at..at + size) {
        Some(record) => Some(record),
        None => {
            wrapped.clear();
            wrapped.extend_from_slice(&data[at..]);
            wrapped.extend_from_slice(&data[..size - (data.len() - at)]);
            Some(wrapped)
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` made; no reference into it outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.page + self.data) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf_event_open_sys::bindings::perf_event_mmap_page;

    #[test]
    fn offsets_equal_those_of_the_kernel_header() {
        assert_eq!(DATA_HEAD, std::mem::offset_of!(perf_event_mmap_page, data_head));
        assert_eq!(DATA_TAIL, std::mem::offset_of!(perf_event_mmap_page, data_tail));
    }

    #[test]
    fn a_record_that_wraps_around_is_assembled() {
        let mut data = [0u8; 32];
        for (i, byte) in [1, 2, 3, 4, 5, 6, 16, 0, 9, 10, 11, 12, 13, 14, 15, 16].into_iter().enumerate() {
            data[(24 + i) % 32] = byte;
        }
        let mut wrapped = Vec::new();
        let record = next_record(&data, 24, 16, &mut wrapped).unwrap();
        assert_eq!(record, [1, 2, 3, 4, 5, 6, 16, 0, 9, 10, 11, 12, 13, 14, 15, 16]);
    }

    #[test]
    fn impossible_sizes_are_refused() {
        let mut wrapped = Vec::new();
        let with_size = |size: u8| [0, 0, 0, 0, 0, 0, size, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(next_record(&with_size(7), 0, 16, &mut wrapped).is_none());
        assert!(next_record(&with_size(17), 0, 16, &mut wrapped).is_none());
        assert!(next_record(&with_size(12), 0, 16, &mut wrapped).is_none(), "records are multiples of 8");
        assert!(next_record(&with_size(8), 0, 7, &mut wrapped).is_none());
        assert_eq!(next_record(&with_size(16), 0, 16, &mut wrapped).unwrap().len(), 16);
    }
}
