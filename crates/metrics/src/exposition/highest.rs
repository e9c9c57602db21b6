//! The highest value that each series has shown.

use std::collections::HashMap;
use std::fmt;

/// The highest value of each series so far. The number of series depends on causes, events and programs, not on
/// processes.
#[derive(Debug, Default)]
pub(super) struct HighestValues {
    by_series: HashMap<String, Number>,
}

impl HighestValues {
    /// Returns the highest value of the series, including this one.
    pub(super) fn at_least(&mut self, series: &str, value: Number) -> Number {
        let Some(highest) = self.by_series.get_mut(series) else {
            self.by_series.insert(series.to_owned(), value);
            return value;
        };
        if *highest < value {
            *highest = value;
        }
        *highest
    }
}

/// A value of a series. All values of one series have the same variant.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) enum Number {
    Whole(u64),
    Real(f64),
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => value.fmt(f),
            Self::Real(value) => value.fmt(f),
        }
    }
}
