//! What a table or a list of mappings needs of the table pool: its parts, each of which lies together.

use crate::abi::skeleton::types;

const MAPPING_WORDS: u32 = (size_of::<types::mapping>() / 4) as u32;

/// A part of a table: words that lie together, from a multiple of `align` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) words: u32,
    pub(crate) align: u32,
    pub(crate) in_one_chunk: bool,
}

/// The parts of a table or of a list of mappings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableShape(pub(crate) Vec<Part>);

impl TableShape {
    /// That of a list of so many mappings.
    #[must_use]
    pub fn of_mappings(count: usize) -> Self {
        let words = u32::try_from(count).unwrap_or(u32::MAX).saturating_mul(MAPPING_WORDS);
        Self(vec![Part { words, align: MAPPING_WORDS, in_one_chunk: false }])
    }

    /// Words of all parts.
    pub(crate) fn words(&self) -> u64 {
        self.0.iter().map(|part| u64::from(part.words)).sum()
    }

    /// Bytes of all parts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        usize::try_from(self.words() * 4).unwrap_or(usize::MAX)
    }
}
