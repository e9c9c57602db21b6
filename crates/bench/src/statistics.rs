//! Medians and spreads.

/// The quantile of the values at `share`, interpolated; NaN without values. Sorts the values.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len().saturating_sub(1)) as f64 * share;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    match (values.get(low), values.get(high)) {
        (Some(low_value), Some(high_value)) => low_value + (high_value - low_value) * (at - low as f64),
        _ => f64::NAN,
    }
}

/// Several values of one figure, summarized.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Half of the values are larger.
    pub median: f64,
    /// Half of the distance between the quartiles.
    pub spread: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

/// Median, spread and extremes; NaN without values.
#[must_use]
pub fn summary(mut values: Vec<f64>) -> Summary {
    let mut at = |share| quantile(&mut values, share);
    Summary { median: at(0.5), spread: (at(0.75) - at(0.25)) / 2.0, least: at(0.0), most: at(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours() {
        let mut values = vec![4.0, 1.0, 3.0, 2.0];
        assert!((quantile(&mut values, 0.5) - 2.5).abs() < 1e-12);
        assert!(
            (quantile(&mut values, 0.0) - 1.0).abs() < 1e-12
                && (quantile(&mut values, 1.0) - 4.0).abs() < 1e-12
        );
        assert!(quantile(&mut [], 0.5).is_nan());
    }
}
