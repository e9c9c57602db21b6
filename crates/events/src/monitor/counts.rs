//! What became of the records of each event on each CPU.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::item::EventId;

/// Counted while the monitor runs.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub delivered: AtomicU64,
    pub lost: AtomicU64,
    pub late: AtomicU64,
    pub early: AtomicU64,
    pub malformed: AtomicU64,
    pub decode_errors: AtomicU64,
}

/// Adds to a count that nothing else depends on.
pub(crate) fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

/// The counts of an event on a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventStats {
    /// Passed to the callback.
    pub delivered: u64,
    /// Lost in the kernel, because the ring was full.
    pub lost: u64,
    /// Delivered behind later ones.
    pub late: u64,
    /// Delivered before their turn, because too much was held.
    pub early: u64,
    /// Records whose bytes made no sense.
    pub malformed: u64,
    /// Errors of the decoder.
    pub decode_errors: u64,
}

/// The counts of a monitor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MonitorStats {
    /// By event and CPU. Without an event: records about threads.
    pub events: BTreeMap<(Option<EventId>, u32), EventStats>,
    /// Bytes of rings that were skipped because their sizes were impossible.
    pub corrupt_bytes: u64,
    /// Records of events that the monitor does not know.
    pub unknown_id: u64,
}

impl Counts {
    pub fn read(&self) -> EventStats {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        EventStats {
            delivered: get(&self.delivered),
            lost: get(&self.lost),
            late: get(&self.late),
            early: get(&self.early),
            malformed: get(&self.malformed),
            decode_errors: get(&self.decode_errors),
        }
    }
}

impl MonitorStats {
    /// The counts of an event on all CPUs.
    #[must_use]
    pub fn of(&self, event: Option<EventId>) -> EventStats {
        let all = self.events.iter().filter(|((id, _), _)| *id == event).map(|(_, stats)| stats);
        all.fold(EventStats::default(), |sum, one| EventStats {
            delivered: sum.delivered + one.delivered,
            lost: sum.lost + one.lost,
            late: sum.late + one.late,
            early: sum.early + one.early,
            malformed: sum.malformed + one.malformed,
            decode_errors: sum.decode_errors + one.decode_errors,
        })
    }
}
