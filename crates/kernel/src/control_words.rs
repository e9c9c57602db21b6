//! The words that user space and the programs share: the variable `control_words` of the programs. Its section is a map.
//! It is mapped into memory, so that a write is atomic and needs no system call.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::{MapCore, MapHandle};
use memmap2::{MmapOptions, MmapRaw};

use crate::Error;
use crate::abi::control;
use crate::table_pool::TablePool;

/// The words that each run of a program reads; see [`crate::abi::control`].
#[derive(Clone)]
pub(crate) struct ControlWords(Arc<MmapRaw>);

impl ControlWords {
    /// The map of the section.
    pub(crate) const MAP: &str = ".data.control";

    pub(crate) fn new(map: &MapHandle) -> Result<Self, Error> {
        let size = control::WORDS as usize * 8;
        if map.value_size() as usize != size {
            return Err(Error::Missing { kind: "map", name: Self::MAP });
        }
        let memory = MmapOptions::new()
            .len(size)
            .map_raw(map.as_fd().as_raw_fd())
            .map_err(|source| Error::Mmap { map: Self::MAP, source })?;
        Ok(Self(Arc::new(memory)))
    }

    /// Writes a word. A program that sees the new value also sees everything written before it.
    pub(crate) fn set(&self, which: u32, value: u64) {
        let words = self.0.as_mut_ptr().cast::<AtomicU64>();
        // SAFETY: the mapping has that many words, is page aligned and lives as long as `self`; all access is atomic.
        let words = unsafe { std::slice::from_raw_parts(words, self.0.len() / 8) };
        if let Some(word) = words.get(which as usize) {
            word.store(value, Ordering::Release);
        }
    }
}

/// Selects one of two sides: the programs add to one side while user space empties the other.
pub(crate) struct Switch {
    words: ControlWords,
    /// The control word. It counts the changes; its lowest bit is the number of the side in use.
    word: u32,
    changes: u64,
}

impl Switch {
    pub(crate) fn new(words: ControlWords, word: u32) -> Self {
        Self { words, word, changes: 0 }
    }

    /// The number of the side that is not in use.
    pub(crate) fn other(&self) -> usize {
        (self.changes & 1 ^ 1) as usize
    }

    /// How often the side was changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Changes the side and waits until no program adds to the old one. Then [`Self::other`] is the old side.
    pub(crate) fn change(&mut self, pool: &mut TablePool) -> Result<(), Error> {
        self.changes = self.changes.wrapping_add(1);
        self.words.set(self.word, self.changes);
        pool.wait_for_programs()
    }
}
