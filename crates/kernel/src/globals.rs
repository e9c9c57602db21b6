//! What user space tells the programs while they run: their global variables, `.bss`, which it alone writes, and the
//! map `control_words`.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use memmap2::{MmapOptions, MmapRaw};

use crate::Error;

/// Writes a variable at its place in the skeleton's `bss`.
pub(crate) fn set(bss: &MapHandle, at: usize, value: &[u8]) -> Result<(), Error> {
    let failed = |action| move |source| Error::Map { action, map: ".bss", source };
    let key = 0u32.to_ne_bytes();
    let mut bytes = bss.lookup(&key, MapFlags::ANY).map_err(failed("read"))?.unwrap_or_default();
    if let Some(variable) = bytes.get_mut(at..at + value.len()) {
        variable.copy_from_slice(value);
    }
    bss.update(&key, &bytes, MapFlags::ANY).map_err(failed("write"))
}

/// The words that each run of a program looks at; see [`crate::abi::control`].
#[derive(Clone)]
pub(crate) struct ControlWords(Arc<MmapRaw>);

impl ControlWords {
    pub(crate) fn new(map: &MapHandle) -> Result<Self, Error> {
        if map.value_size() != 8 {
            return Err(Error::Missing { kind: "map", name: "control_words" });
        }
        let memory = MmapOptions::new()
            .len(map.max_entries() as usize * 8)
            .map_raw(map.as_fd().as_raw_fd())
            .map_err(|source| Error::Mmap { map: "control_words", source })?;
        Ok(Self(Arc::new(memory)))
    }

    /// Writes a word. Programs that see it also see what was written before.
    pub(crate) fn set(&self, which: u32, value: u64) {
        let words = self.0.as_mut_ptr().cast::<AtomicU64>();
        // SAFETY: the mapping has that many words, is page aligned and lives as long as `self`; all access is atomic.
        let words = unsafe { std::slice::from_raw_parts(words, self.0.len() / 8) };
        if let Some(word) = words.get(which as usize) {
            word.store(value, Ordering::Release);
        }
    }
}
