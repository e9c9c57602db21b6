//! What a counter has shown is never taken back.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use super::{Exposition, Health, expose_beside};
use crate::MetricsSnapshot;

/// Exposes again and again, for readers who take a fall of a counter for a restart of the profiler.
///
/// Some figures are estimates, which may fall from one look to the next: a counter that had no hardware for a part of the
/// time is scaled by that part. Each series of a counter or histogram shows the highest value that it has had. The other
/// ways to get at the figures have them as they are.
#[derive(Debug, Default)]
pub struct Exposer {
    shown: Mutex<Shown>,
}

impl Exposer {
    /// Nothing was shown yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// As [`expose`](super::expose), with counters that never fall.
    #[must_use]
    pub fn expose(
        &self,
        exposition: Exposition,
        health: &Health,
        snapshot: Option<&MetricsSnapshot>,
    ) -> String {
        // A series is noted at once, so that nothing is half done after a panic.
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        expose_beside(&mut shown, exposition, health, snapshot)
    }
}

/// The highest value of each series so far. There are as many as causes, events and programs; none depends on processes.
#[derive(Debug, Default)]
pub(super) struct Shown {
    highest: HashMap<String, Number>,
}

impl Shown {
    /// The highest value that the series has had, with this one.
    pub(super) fn at_least(&mut self, series: &str, value: Number) -> Number {
        let Some(highest) = self.highest.get_mut(series) else {
            self.highest.insert(series.to_owned(), value);
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
