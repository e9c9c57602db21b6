//! The vDSO, read from this process: the kernel maps the same vDSO into every process of its kind.

use std::fs::File;
use std::sync::Arc;

use crate::maps;

/// Bytes that are read; a vDSO has a few pages.
const MAX_BYTES: u64 = 1 << 20;

/// The vDSO of this process.
pub(crate) fn read() -> Option<Arc<[u8]>> {
    let mut range = None;
    let own = File::open("/proc/self/maps").ok()?;
    maps::for_each(own, |entry| {
        if entry.path == b"[vdso]" {
            range = Some((entry.start, entry.end));
        }
    })
    .ok()?;
    let (start, end) = range?;
    let len = usize::try_from((end - start).min(MAX_BYTES)).ok()?;
    let mut bytes = vec![0; len];
    let read = sys::memory::read(std::process::id(), start, &mut bytes).ok()?;
    bytes.truncate(read);
    Some(bytes.into())
}
