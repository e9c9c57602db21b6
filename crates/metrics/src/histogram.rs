//! Distributions of durations.

use crate::LatencyStats;
use crate::bucket::{HISTOGRAM_BUCKETS, bounds_of, bucket_of, middle_of};

/// A distribution of durations in ns.
///
/// Count, sum, minimum and maximum are exact. Percentiles are within 1 % from 1 us to 1,000 s and lie between minimum
/// and maximum. A merged histogram equals the histogram of all values. Memory is used only for buckets with values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    count: u64,
    sum_ns: u64,
    /// Both are meaningless while `count` is 0.
    min_ns: u64,
    max_ns: u64,
    /// By index, in ascending order, without empty buckets. Thousands of processes have a histogram each, with few
    /// buckets.
    buckets: Vec<(u16, u64)>,
}

impl Histogram {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// From sums that the kernel has made. `buckets` are by index; those beyond the last count as the last. Minimum and
    /// maximum are ignored if `count` is 0. [`add_bucket`](Self::add_bucket) adds buckets that were kept sparsely.
    #[must_use]
    pub fn from_parts(count: u64, sum_ns: u64, min_ns: u64, max_ns: u64, buckets: &[u64]) -> Self {
        let (min_ns, max_ns) = if count == 0 { (0, 0) } else { (min_ns.min(max_ns), min_ns.max(max_ns)) };
        let sum_ns = if count == 0 { 0 } else { sum_ns };
        let mut histogram = Self { count, sum_ns, min_ns, max_ns, buckets: Vec::new() };
        for (index, &values) in buckets.iter().enumerate() {
            histogram.add_bucket(index, values);
        }
        histogram
    }

    /// Adds `values` to a bucket. They are part of the count that [`from_parts`](Self::from_parts) was given: count,
    /// sum, minimum and maximum do not change.
    pub fn add_bucket(&mut self, index: usize, values: u64) {
        if values > 0 {
            let index = index.min(HISTOGRAM_BUCKETS - 1) as u16;
            match self.buckets.binary_search_by_key(&index, |(index, _)| *index) {
                Ok(at) => self.buckets[at].1 = self.buckets[at].1.saturating_add(values),
                Err(at) => self.buckets.insert(at, (index, values)),
            }
        }
    }

    /// Adds one value.
    pub fn record(&mut self, value_ns: u64) {
        if self.count == 0 {
            (self.min_ns, self.max_ns) = (value_ns, value_ns);
        }
        self.count = self.count.saturating_add(1);
        self.sum_ns = self.sum_ns.saturating_add(value_ns);
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
        self.add_bucket(bucket_of(value_ns), 1);
    }

    /// Adds all values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if other.count > 0 {
            if self.count == 0 {
                (self.min_ns, self.max_ns) = (other.min_ns, other.max_ns);
            }
            self.count = self.count.saturating_add(other.count);
            self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
            self.min_ns = self.min_ns.min(other.min_ns);
            self.max_ns = self.max_ns.max(other.max_ns);
        }
        for &(index, values) in &other.buckets {
            self.add_bucket(usize::from(index), values);
        }
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of all values.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Smallest value; none if empty.
    #[must_use]
    pub fn min_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min_ns)
    }

    /// Largest value; none if empty.
    #[must_use]
    pub fn max_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max_ns)
    }

    /// Mean; none if empty.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        let mean = self.sum_ns as f64 / self.count as f64;
        (self.count > 0).then(|| mean.clamp(self.min_ns as f64, self.max_ns as f64))
    }

    /// Whether there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Values that are in the count but in no bucket, so that percentiles ignore them: the kernel had no memory for
    /// another bucket.
    #[must_use]
    pub fn unplaced(&self) -> u64 {
        self.count.saturating_sub(self.placed())
    }

    fn placed(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, (_, values)| sum.saturating_add(*values))
    }

    /// The smallest value `v` such that at least `per_mille` of 1,000 parts of the values are at most `v` (nearest
    /// rank); 500 is the median. None if empty. Without any bucket it is the mean.
    #[must_use]
    pub fn percentile_ns(&self, per_mille: u32) -> Option<u64> {
        let mean = self.mean_ns()?;
        let placed = self.placed();
        let rank = (u128::from(placed) * u128::from(per_mille.min(1000))).div_ceil(1000).max(1);
        if placed == self.count && rank == u128::from(placed) {
            return Some(self.max_ns);
        }
        if placed == self.count && rank == 1 {
            return Some(self.min_ns);
        }
        let mut below = 0u128;
        let found = self.buckets.iter().find(|(_, values)| {
            below += u128::from(*values);
            below >= rank
        });
        let value = found.map_or(mean as u64, |(index, _)| middle_of(usize::from(*index)));
        Some(value.clamp(self.min_ns, self.max_ns))
    }

    /// The number of values up to `limit_ns`, by whole buckets: exact if a bucket ends with `limit_ns`.
    #[must_use]
    pub fn count_up_to(&self, limit_ns: u64) -> u64 {
        let whole = self.buckets.iter().take_while(|(index, _)| bounds_of(usize::from(*index)).1 <= limit_ns);
        whole.fold(0, |sum: u64, (_, values)| sum.saturating_add(*values))
    }

    /// The statistics for reports; none if empty.
    #[must_use]
    pub fn stats(&self) -> Option<LatencyStats> {
        Some(LatencyStats {
            count: self.count,
            min: self.min_ns()?,
            max: self.max_ns()?,
            mean: self.mean_ns()?,
            p50: self.percentile_ns(500)?,
            p95: self.percentile_ns(950)?,
            p99: self.percentile_ns(990)?,
            p999: self.percentile_ns(999)?,
        })
    }
}

impl Extend<u64> for Histogram {
    fn extend<T: IntoIterator<Item = u64>>(&mut self, values_ns: T) {
        values_ns.into_iter().for_each(|value| self.record(value));
    }
}

impl FromIterator<u64> for Histogram {
    fn from_iter<T: IntoIterator<Item = u64>>(values_ns: T) -> Self {
        let mut histogram = Self::new();
        histogram.extend(values_ns);
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Durations of all magnitudes, with equal probability.
    fn duration_ns() -> impl Strategy<Value = u64> {
        (0u32..40, any::<u64>()).prop_map(|(shift, bits)| (1u64 << shift) | (bits & ((1 << shift) - 1)))
    }

    #[test]
    fn an_empty_histogram_has_no_statistics() {
        let empty = Histogram::from_parts(0, 7, u64::MAX, 0, &[]);
        assert_eq!(empty, Histogram::new());
        assert_eq!(empty.stats(), None);
        assert_eq!(empty.percentile_ns(500), None);
    }

    #[test]
    fn a_single_value_is_every_percentile_exactly() {
        let stats = Histogram::from_iter([1_234_567]).stats().unwrap();
        assert_eq!([stats.min, stats.p50, stats.p95, stats.p99, stats.p999, stats.max], [1_234_567; 6]);
        assert_eq!((stats.count, stats.mean), (1, 1_234_567.0));
    }

    #[test]
    fn ranks_are_nearest_ranks() {
        let tens: Histogram = (1..=10).collect();
        let percentiles = [1, 100, 101, 500, 501, 950, 1000, 2000].map(|p| tens.percentile_ns(p).unwrap());
        assert_eq!(percentiles, [1, 1, 2, 5, 6, 10, 10, 10]);
    }

    #[test]
    fn values_without_a_bucket_are_counted() {
        let mut histogram = Histogram::from_parts(10, 1000, 40, 300, &[]);
        assert_eq!(histogram.unplaced(), 10);
        assert_eq!(histogram.percentile_ns(990), Some(100));
        histogram.add_bucket(bucket_of(50), 8);
        assert_eq!((histogram.unplaced(), histogram.percentile_ns(990)), (2, Some(50)));
        assert_eq!((histogram.count(), histogram.sum_ns()), (10, 1000));
    }

    #[test]
    fn inconsistent_parts_give_ordered_statistics() {
        let mut histogram = Histogram::from_parts(u64::MAX, u64::MAX, 9, 5, &[u64::MAX; 3]);
        histogram.add_bucket(usize::MAX, u64::MAX);
        histogram.merge(&histogram.clone());
        histogram.record(u64::MAX);
        let stats = histogram.stats().unwrap();
        assert!(stats.min <= stats.p50 && stats.p999 <= stats.max, "{stats:?}");
    }

    proptest! {
        #[test]
        fn percentiles_are_within_one_percent_of_the_sorted_values(
            mut values in proptest::collection::vec(duration_ns(), 1..400), per_mille in 0u32..=1000,
        ) {
            let histogram: Histogram = values.iter().copied().collect();
            values.sort_unstable();
            let rank = (values.len() * per_mille as usize).div_ceil(1000).max(1);
            let (exact, found) = (values[rank - 1], histogram.percentile_ns(per_mille).unwrap());
            prop_assert!(found.abs_diff(exact) as f64 <= 0.01 * exact as f64, "{found} for {exact}");
            prop_assert!(values[0] <= found && found <= values[values.len() - 1]);
            prop_assert_eq!(histogram.min_ns(), values.first().copied());
            prop_assert_eq!(histogram.max_ns(), values.last().copied());
            prop_assert_eq!(histogram.sum_ns(), values.iter().sum::<u64>());
            prop_assert_eq!(histogram.count(), values.len() as u64);
        }

        #[test]
        fn merging_is_recording_all(
            parts in proptest::collection::vec(proptest::collection::vec(duration_ns(), 0..50), 0..8),
        ) {
            let whole: Histogram = parts.iter().flatten().copied().collect();
            let mut merged = Histogram::new();
            for part in &parts {
                merged.merge(&part.iter().copied().collect());
            }
            prop_assert_eq!(&merged, &whole);
            let mut backwards = Histogram::new();
            for part in parts.iter().rev() {
                backwards.merge(&part.iter().copied().collect());
            }
            prop_assert_eq!(&backwards, &whole);
        }

        #[test]
        fn parts_put_together_are_the_whole(values in proptest::collection::vec(any::<u64>(), 1..100)) {
            let values: Vec<u64> = values.into_iter().map(|value| value >> 8).collect();
            let recorded: Histogram = values.iter().copied().collect();
            let mut buckets = vec![0; HISTOGRAM_BUCKETS];
            values.iter().for_each(|&value| buckets[bucket_of(value)] += 1);
            let (min, max) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
            let sum = values.iter().fold(0u64, |sum, &value| sum.saturating_add(value));
            let dense = Histogram::from_parts(values.len() as u64, sum, min, max, &buckets);
            prop_assert_eq!(&dense, &recorded);
            let mut sparse = Histogram::from_parts(values.len() as u64, sum, min, max, &[]);
            values.iter().for_each(|&value| sparse.add_bucket(bucket_of(value), 1));
            prop_assert_eq!(&sparse, &recorded);
        }

        #[test]
        fn counts_up_to_the_end_of_a_bucket_are_exact(
            values in proptest::collection::vec(duration_ns(), 0..100), shift in 0u32..42,
        ) {
            let histogram: Histogram = values.iter().copied().collect();
            let limit = (1u64 << shift) - 1;
            let exact = values.iter().filter(|&&value| value <= limit).count() as u64;
            prop_assert_eq!(histogram.count_up_to(limit), exact);
        }
    }
}
