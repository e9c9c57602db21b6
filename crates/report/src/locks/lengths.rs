//! The length that most waits do not exceed, from their numbers by bucket.

use std::collections::BTreeMap;

use recording::length_bounds;

use crate::figures::{add, sum};

/// Numbers of waits by the bucket of their length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lengths(BTreeMap<u32, u64>);

impl Lengths {
    pub(super) fn add(&mut self, bucket: u32, waits: u64) {
        add(self.0.entry(bucket).or_default(), waits);
    }

    /// The length that 99 of 100 waits do not exceed, within an eighth; `None` if no length is known.
    pub(super) fn p99_ns(&self, longest_ns: u64) -> Option<u64> {
        let all = sum(self.0.values().copied());
        let wanted = all - all / 100;
        let mut before = 0u64;
        for (bucket, waits) in &self.0 {
            let (first, last) = length_bounds(*bucket);
            if before.saturating_add(*waits) >= wanted && *waits > 0 {
                // The waits of a bucket are taken as spread evenly.
                let share = (wanted - before) as f64 / *waits as f64;
                let length = first + ((last - first) as f64 * share) as u64;
                return Some(if longest_ns > 0 { length.min(longest_ns) } else { length });
            }
            before = before.saturating_add(*waits);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_hundred_may_be_longer() {
        let mut lengths = Lengths::default();
        assert_eq!(lengths.p99_ns(0), None);
        // 1024..=1151 ns and 1,048,576..=1,179,647 ns.
        lengths.add(64, 99);
        lengths.add(144, 1);
        assert_eq!((length_bounds(64).0, length_bounds(144).0), (1 << 10, 1 << 20));
        assert_eq!(lengths.p99_ns(1_100_000), Some(1151));
        lengths.add(144, 1);
        assert!(lengths.p99_ns(1_100_000).unwrap() > 1 << 20);
        assert_eq!(lengths.p99_ns(1_048_600), Some(1_048_600), "no longer than the longest");
        lengths.add(144, u64::MAX);
        assert!(lengths.p99_ns(0).is_some(), "sums end at the largest number");
    }
}
