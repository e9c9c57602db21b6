//! The free words of the table pool. Allocation is first fit from the lowest address, which keeps few chunks in use.

use std::collections::BTreeMap;

use crate::abi::CHUNK_WORDS;

/// Free extents of a range of word addresses.
#[derive(Clone, Debug)]
pub(crate) struct Extents {
    /// start -> length
    free: BTreeMap<u32, u32>,
    /// All of them together.
    words: u32,
}

impl Extents {
    pub(crate) fn new(words: u32) -> Self {
        Self { free: BTreeMap::from([(0, words)]), words }
    }

    /// Free words, in however many pieces.
    pub(crate) fn words(&self) -> u32 {
        self.words
    }

    /// Takes `words` words at a multiple of `align` (a power of two). With `in_one_chunk` they do not cross a chunk boundary.
    pub(crate) fn take(&mut self, words: u32, align: u32, in_one_chunk: bool) -> Option<u32> {
        let (from, length, start) = self.free.iter().find_map(|(&from, &length)| {
            let mut start = from.checked_next_multiple_of(align)?;
            if in_one_chunk && start / CHUNK_WORDS != (start + words.max(1) - 1) / CHUNK_WORDS {
                start = start.checked_next_multiple_of(CHUNK_WORDS)?;
            }
            (start + words <= from + length).then_some((from, length, start))
        })?;
        self.words -= words;
        self.free.remove(&from);
        if start > from {
            self.free.insert(from, start - from);
        }
        if from + length > start + words {
            self.free.insert(start + words, from + length - start - words);
        }
        Some(start)
    }

    /// Frees words that [`Self::take`] returned.
    pub(crate) fn give(&mut self, mut start: u32, mut words: u32) {
        if words == 0 {
            return;
        }
        self.words += words;
        if let Some((&before, &length)) = self.free.range(..start).next_back()
            && before + length == start
        {
            self.free.remove(&before);
            start = before;
            words += length;
        }
        if let Some(length) = self.free.remove(&(start + words)) {
            words += length;
        }
        self.free.insert(start, words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_extents_are_merged() {
        let mut extents = Extents::new(4 * CHUNK_WORDS);
        let a = extents.take(100, 8, false).unwrap();
        let b = extents.take(CHUNK_WORDS, 1, true).unwrap();
        let c = extents.take(2 * CHUNK_WORDS, 8, false).unwrap();
        assert_eq!((a, b, c), (0, CHUNK_WORDS, 2 * CHUNK_WORDS));
        assert_eq!(extents.take(CHUNK_WORDS, 1, false), None);
        assert_eq!(extents.words(), CHUNK_WORDS - 100);
        extents.give(b, CHUNK_WORDS);
        extents.give(a, 100);
        extents.give(c, 2 * CHUNK_WORDS);
        assert_eq!(extents.free, BTreeMap::from([(0, 4 * CHUNK_WORDS)]));
        assert_eq!(extents.words(), 4 * CHUNK_WORDS);
    }

    #[test]
    fn rows_do_not_cross_a_chunk_boundary() {
        let mut extents = Extents::new(2 * CHUNK_WORDS);
        assert_eq!(extents.take(CHUNK_WORDS - 10, 1, true), Some(0));
        assert_eq!(extents.take(11, 1, true), Some(CHUNK_WORDS));
        assert_eq!(extents.take(10, 1, true), Some(CHUNK_WORDS - 10));
    }
}
