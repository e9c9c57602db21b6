//! Which bucket a duration belongs to: log-linear, 64 linear buckets per power of two.
//!
//! Values below 64 ns have a bucket each. A larger value `v` with `e = floor(log2(v))`, so `e >= 6`, belongs to
//!
//! ```text
//! ((e - 5) << 6) + ((v >> (e - 6)) - 64)
//! ```
//!
//! which continues the numbers below without a gap: 63 is bucket 63, 64 is bucket 64. A bucket is `2^(e - 6)` wide
//! and begins at `2^e` or later, so its middle is at most 1/128 of the value away. From `2^42` ns (73 minutes) on,
//! all values share [`LAST`](HISTOGRAM_BUCKETS), the bucket that the formula gives for `2^42`.
//!
//! The BPF program computes the same number; both must agree.

/// Linear buckets per power of two, as a shift.
const SUB_SHIFT: u32 = 6;
/// The first power of two that has no buckets of its own.
const LIMIT_SHIFT: u32 = 42;
/// Number of buckets.
pub const HISTOGRAM_BUCKETS: usize = ((LIMIT_SHIFT - SUB_SHIFT + 1) << SUB_SHIFT) as usize + 1;

/// The bucket of a value in ns.
#[must_use]
pub fn bucket_of(value_ns: u64) -> usize {
    if value_ns >> SUB_SHIFT == 0 {
        return value_ns as usize;
    }
    if value_ns >> LIMIT_SHIFT != 0 {
        return HISTOGRAM_BUCKETS - 1;
    }
    let shift = value_ns.ilog2() - SUB_SHIFT;
    (((shift + 1) << SUB_SHIFT) as usize) + ((value_ns >> shift) as usize - (1 << SUB_SHIFT))
}

/// The smallest and the largest value in ns of a bucket. Indices past the last name the last.
#[must_use]
pub fn bounds_of(bucket: usize) -> (u64, u64) {
    let bucket = bucket.min(HISTOGRAM_BUCKETS - 1) as u64;
    if bucket >> SUB_SHIFT == 0 {
        return (bucket, bucket);
    }
    if bucket == HISTOGRAM_BUCKETS as u64 - 1 {
        return (1 << LIMIT_SHIFT, u64::MAX);
    }
    let shift = (bucket >> SUB_SHIFT) - 1;
    let first = ((bucket & ((1 << SUB_SHIFT) - 1)) + (1 << SUB_SHIFT)) << shift;
    (first, first + (1 << shift) - 1)
}

/// The value that represents a bucket: its middle; for the last bucket, which has no end, its start.
pub(crate) fn middle_of(bucket: usize) -> u64 {
    let (first, last) = bounds_of(bucket);
    if last == u64::MAX { first } else { first + (last - first) / 2 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_those_of_the_contract() {
        let cases = [
            (0, 0),
            (1, 1),
            (63, 63),
            (64, 64),
            (127, 127),
            (128, 128),
            (129, 128),
            (130, 129),
            (1_000, 317),
            (1_000_000, (14 << 6) + 58),
            ((1 << 42) - 1, 2367),
            (1 << 42, 2368),
            (u64::MAX, 2368),
        ];
        for (value, bucket) in cases {
            assert_eq!(bucket_of(value), bucket, "{value}");
        }
        assert_eq!(HISTOGRAM_BUCKETS, 2369);
    }

    #[test]
    fn buckets_follow_each_other_without_gap_or_overlap() {
        let mut next = 0;
        for bucket in 0..HISTOGRAM_BUCKETS {
            let (first, last) = bounds_of(bucket);
            assert_eq!(first, next, "{bucket}");
            assert_eq!((bucket_of(first), bucket_of(last)), (bucket, bucket));
            next = last.wrapping_add(1);
        }
        assert_eq!(next, 0, "the last bucket ends with the last number");
        assert_eq!(bounds_of(usize::MAX), bounds_of(HISTOGRAM_BUCKETS - 1));
    }

    proptest! {
        #[test]
        fn the_middle_is_within_one_percent(shift in 0u32..42, bits in any::<u64>()) {
            let value = (1u64 << shift) | (bits & ((1 << shift) - 1));
            let middle = middle_of(bucket_of(value));
            prop_assert!(middle.abs_diff(value) as f64 <= value as f64 / 128.0, "{value} {middle}");
        }
    }
}
