//! Metrics for readers who come again and again: a counter never falls.

use std::sync::{Mutex, PoisonError};

use super::families;
use super::format::Exposition;
use super::health::Health;
use super::highest::HighestValues;
use crate::MetricsSnapshot;

/// Writes the metrics again and again. No counter falls from one text to the next, because monitoring systems take a
/// lower value for a restart of the profiler.
///
/// Some values are estimates, which can fall: the value of a counter that shared its hardware is scaled by the part of
/// the time for which it ran. Each series of a counter or histogram shows the highest value that it has had so far.
/// Reports and the library's snapshots show the estimates as they are.
#[derive(Debug, Default)]
pub struct Exposer {
    highest: Mutex<HighestValues>,
}

impl Exposer {
    /// An exposer that has shown nothing yet.
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
        // Each value is stored before the next is written, so a panic leaves nothing half done.
        let mut highest = self.highest.lock().unwrap_or_else(PoisonError::into_inner);
        families::write(&mut highest, exposition, health, snapshot)
    }
}
