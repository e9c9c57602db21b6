//! The code that no unwind information describes.

use std::ops::Range;

use crate::image::Image;

/// A file and the ranges of its code without unwind information.
pub(super) struct UncoveredCode<'a> {
    pub image: &'a Image<'a>,
    /// Sorted by address.
    pub gaps: Vec<Range<u64>>,
}

impl UncoveredCode<'_> {
    pub(super) fn contains(&self, address: u64) -> bool {
        let after = self.gaps.partition_point(|gap| gap.start <= address);
        after > 0 && address < self.gaps[after - 1].end
    }
}
