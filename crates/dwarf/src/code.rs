//! Which addresses are code.

use std::ops::Range;

/// The address ranges of code of a file. Linkers keep the debug information of functions that they dropped, at addresses outside of code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code<'a>(&'a [Range<u64>]);

impl<'a> Code<'a> {
    /// The ranges are sorted.
    pub fn new(ranges: &'a [Range<u64>]) -> Self {
        Self(ranges)
    }

    /// Whether an address is code.
    #[inline]
    pub fn has(&self, address: u64) -> bool {
        let index = self.0.partition_point(|range| range.start <= address);
        index.checked_sub(1).and_then(|index| self.0.get(index)).is_some_and(|range| address < range.end)
    }
}
