//! The table pool of the kernel side, in ordinary memory.

use crate::Error;
use crate::abi::CHUNK_WORDS;
use crate::abi::MAX_CHUNKS;

/// One chunk, aligned for the 64-bit fields that lie in it.
#[derive(Clone, Debug)]
#[repr(C, align(8))]
pub(crate) struct Chunk(pub(crate) [u32; CHUNK_WORDS as usize]);

/// What was not written holds this, so that a walker which reads there goes astray.
const UNWRITTEN: u32 = 0xdead_beef;

/// Nothing is ever given back.
#[derive(Default)]
pub(crate) struct TablePool {
    pub(crate) chunks: Vec<Chunk>,
    used: u32,
}

impl TablePool {
    /// An pool that holds these words and nothing else; what does not fit is left out.
    pub(crate) fn of_words(words: &[u32]) -> Self {
        let mut pool = Self::default();
        let fits = words.len().min((MAX_CHUNKS * CHUNK_WORDS) as usize);
        if let Ok(start) = pool.take(fits as u32, 1) {
            pool.write(start, words[..fits].iter().copied());
        }
        pool
    }

    /// Words at a multiple of `align`.
    pub(crate) fn take(&mut self, words: u32, align: u32) -> Result<u32, Error> {
        let full = Error::TablePoolFull { words };
        let start = self.used.next_multiple_of(align);
        let end = start.checked_add(words).filter(|end| *end <= MAX_CHUNKS * CHUNK_WORDS).ok_or(full)?;
        self.used = end;
        let chunks = end.div_ceil(CHUNK_WORDS) as usize;
        self.chunks.resize(chunks, Chunk([UNWRITTEN; CHUNK_WORDS as usize]));
        Ok(start)
    }

    /// Words that do not straddle a chunk.
    pub(crate) fn take_in_one_chunk(&mut self, words: u32) -> Result<u32, Error> {
        let left = CHUNK_WORDS - self.used % CHUNK_WORDS;
        self.take(words, if words > left { CHUNK_WORDS } else { 1 })
    }

    pub(crate) fn read(&self, at: u32) -> Option<u32> {
        self.chunks.get((at / CHUNK_WORDS) as usize).map(|chunk| chunk.0[(at % CHUNK_WORDS) as usize])
    }

    pub(crate) fn write(&mut self, start: u32, words: impl IntoIterator<Item = u32>) {
        for (at, word) in (start as usize..).zip(words) {
            self.chunks[at / CHUNK_WORDS as usize].0[at % CHUNK_WORDS as usize] = word;
        }
    }
}
