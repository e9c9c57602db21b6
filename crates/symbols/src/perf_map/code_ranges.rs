//! Where a program has code that it made at run time: the memory in which entries of its perf map count.

use std::collections::BTreeMap;
use std::ops::Range;

use profile::Avma;

/// Ranges of executable memory without a file, as they were seen in samples. Ranges that touch are one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeRanges {
    /// Start and end.
    ranges: BTreeMap<u64, u64>,
}

impl CodeRanges {
    /// Ranges that are kept. Code in others has no name.
    pub const MAX: usize = 1 << 14;

    /// Adds a range. Returns whether it was new in part.
    pub fn add(&mut self, range: Range<Avma>) -> bool {
        let Range { start: Avma(mut start), end: Avma(mut end) } = range;
        if start >= end || self.holds(start, end) {
            return false;
        }
        while let Some((&first, &last)) = self.ranges.range(..=end).next_back()
            && last >= start
        {
            self.ranges.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        if self.ranges.len() >= Self::MAX {
            return false;
        }
        self.ranges.insert(start, end);
        true
    }

    /// Whether one range has all these addresses.
    #[must_use]
    pub fn holds(&self, start: u64, end: u64) -> bool {
        self.ranges.range(..=start).next_back().is_some_and(|(_, last)| end <= *last)
    }

    /// Whether a range has one of these addresses.
    pub(super) fn touches(&self, start: u64, end: u64) -> bool {
        self.ranges.range(..end).next_back().is_some_and(|(_, last)| start < *last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one() {
        let mut ranges = CodeRanges::default();
        let mut add = |start, end| ranges.add(Avma(start)..Avma(end));
        assert_eq!([add(10, 20), add(30, 40), add(12, 20), add(5, 5)], [true, true, false, false]);
        assert_eq!((add(20, 25), add(24, 30)), (true, true));
        assert_eq!(ranges.ranges, BTreeMap::from([(10, 40)]));
        assert!(ranges.holds(10, 40) && ranges.holds(15, 16));
        assert!(!ranges.holds(9, 20) && !ranges.holds(39, 41) && !ranges.holds(50, 51));
        assert!(ranges.touches(0, 11) && ranges.touches(39, 100) && ranges.touches(0, 100));
        assert!(!ranges.touches(0, 10) && !ranges.touches(40, 50));
        ranges.add(Avma(0)..Avma(100));
        assert_eq!(ranges.ranges, BTreeMap::from([(0, 100)]));
    }

    #[test]
    fn there_is_a_limit() {
        let mut ranges = CodeRanges::default();
        let added =
            (0..CodeRanges::MAX as u64 + 5).filter(|at| ranges.add(Avma(2 * at)..Avma(2 * at + 1))).count();
        assert_eq!((added, ranges.ranges.len()), (CodeRanges::MAX, CodeRanges::MAX));
    }
}
