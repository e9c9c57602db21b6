//! Sums and shares. A recording from a file may hold any number, so sums saturate.

/// The sum of values.
pub(crate) fn sum(values: impl IntoIterator<Item = u64>) -> u64 {
    values.into_iter().fold(0, u64::saturating_add)
}

/// Adds to a figure.
pub(crate) fn add(figure: &mut u64, more: u64) {
    *figure = figure.saturating_add(more);
}

/// A share in percent, rounded down in the second decimal, so that 100.00 means all; `None` of nothing.
pub(crate) fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (10_000.0 * part as f64 / whole as f64).floor() / 100.0)
}

/// A value as profiles have it.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_all_only_if_nothing_is_missing() {
        assert_eq!(percent(999_999, 1_000_000), Some(99.99));
        assert_eq!((percent(3, 3), percent(0, 3), percent(0, 0)), (Some(100.0), Some(0.0), None));
    }

    #[test]
    fn sums_end_at_the_largest_number() {
        assert_eq!(sum([u64::MAX, 1]), u64::MAX);
        assert_eq!(signed(u64::MAX), i64::MAX);
    }
}
