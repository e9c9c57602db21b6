//! The highest value that each series has shown.

use std::collections::HashMap;
use std::fmt;

/// The highest value of each series so far. There are as many as causes, events and programs; none depends on processes.
#[derive(Debug, Default)]
pub(super) struct HighestValues {
    by_series: HashMap<String, Number>,
}

impl HighestValues {
    /// The highest value that the series has had, with this one.
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

/// A value of a series, whose values are all of one kind.
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
