//! Buckets of lengths of time: 8 for each power of two, and one for each nanosecond below 8. The programs in the kernel use the same.

const SUB_SHIFT: u32 = 3;
/// No length is in a later bucket.
const LAST: u32 = ((64 - SUB_SHIFT) << SUB_SHIFT) + (1 << SUB_SHIFT) - 1;

/// The shortest length of a bucket, and the longest, in ns.
#[must_use]
pub fn length_bounds(bucket: u32) -> (u64, u64) {
    let bucket = bucket.min(LAST);
    let Some(shift) = (bucket >> SUB_SHIFT).checked_sub(1) else { return (bucket.into(), bucket.into()) };
    let first = u64::from((1 << SUB_SHIFT) + (bucket & ((1 << SUB_SHIFT) - 1))) << shift;
    (first, first + ((1 << shift) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_are_no_wider_than_an_eighth() {
        let mut next = 0;
        for bucket in 0..LAST {
            let (first, last) = length_bounds(bucket);
            assert_eq!(first, next, "bucket {bucket}");
            assert!(last >= first && (last - first) <= first / 8, "bucket {bucket}");
            next = last + 1;
        }
        assert_eq!(length_bounds(LAST).1, u64::MAX);
        assert_eq!(length_bounds(u32::MAX), length_bounds(LAST));
        assert_eq!([7, 8, 15, 16, 17].map(|bucket| length_bounds(bucket).0), [7, 8, 15, 16, 18]);
    }
}
