//! Emptying a hash map many elements at a time.
//!
//! libbpf-rs has an iterator for this, but it takes any batch that is not full for the last one. The kernel also ends a
//! batch early when the next bucket would not fit.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{MapCore, MapHandle, libbpf_sys};

const BATCH: usize = 4096;
/// A bucket with more elements than this means that the hash function fails to spread keys.
const MAX_BATCH: usize = 1 << 20;

/// Takes every element, with a key of `KEY` words and a value of `WORDS` words, out of a map.
pub(crate) fn empty<const KEY: usize, const WORDS: usize>(
    map: &MapHandle,
    mut each: impl FnMut([u64; KEY], [u64; WORDS]),
) -> io::Result<()> {
    let sizes = (map.key_size() as usize, map.value_size() as usize);
    assert!(sizes == (KEY * 8, WORDS * 8), "the layout of the map");
    let mut size = BATCH;
    let mut keys = vec![[0u64; KEY]; size];
    let mut values = vec![[0u64; WORDS]; size];
    // The position of the next batch, as the kernel reports it.
    let (mut position, mut next) = (0u64, 0u64);
    let mut begun = false;
    loop {
        let mut count = size as u32;
        let from = if begun { (&raw mut position).cast() } else { std::ptr::null_mut() };
        // SAFETY: keys and values have room for `count` elements of the sizes asserted above; the position is written
        // with at most the size of a key; no options are given.
        let result = unsafe {
            libbpf_sys::bpf_map_lookup_and_delete_batch(
                map.as_fd().as_raw_fd(),
                from,
                (&raw mut next).cast(),
                keys.as_mut_ptr().cast(),
                values.as_mut_ptr().cast(),
                &raw mut count,
                std::ptr::null(),
            )
        };
        match -result {
            0 | libc::ENOENT => {
                for (key, value) in keys.iter().zip(&values).take(count as usize) {
                    each(*key, *value);
                }
                if result != 0 {
                    return Ok(());
                }
                position = next;
                begun = true;
            }
            libc::EINTR => {}
            // The next bucket is larger than the batch.
            libc::ENOSPC if size < MAX_BATCH => {
                size *= 4;
                keys.resize(size, [0; KEY]);
                values.resize(size, [0; WORDS]);
            }
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}
