//! The words that user space and the programs share: the map `control_words`. It is mapped, so that words are written at
//! one moment and without a system call.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::{MapCore, MapHandle};
use memmap2::{MmapOptions, MmapRaw};

use crate::Error;
use crate::table_pool::TablePool;

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

/// Something that there is twice: the programs add to one side while the other is emptied.
pub(crate) struct Switch {
    words: ControlWords,
    /// Counts the changes; its last bit names the side in use.
    word: u32,
    changes: u64,
}

impl Switch {
    pub(crate) fn new(words: ControlWords, word: u32) -> Self {
        Self { words, word, changes: 0 }
    }

    /// The side that is not in use.
    pub(crate) fn other(&self) -> usize {
        (self.changes & 1 ^ 1) as usize
    }

    /// Changes the side, and waits until no program adds to the old one, which is the other one now.
    pub(crate) fn change(&mut self, pool: &mut TablePool) -> Result<(), Error> {
        self.changes = self.changes.wrapping_add(1);
        self.words.set(self.word, self.changes);
        pool.wait_for_programs()
    }
}
