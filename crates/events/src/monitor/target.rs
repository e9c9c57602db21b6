//! Where a record goes: what the monitor knows about an event on a CPU, by the kernel's number of it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use perf_abi::Layout;
use tracepoints::Format;

use super::counts::Counts;
use super::item::{Decoder, EventId};

/// Occurrences of a change of filters that wait for their other record.
const MAX_UNPAIRED: usize = 4096;

/// Where a record goes.
#[derive(Debug)]
pub(crate) struct Target {
    /// None for records about threads.
    pub event: Option<EventId>,
    pub source: usize,
    /// The thread that the event was opened for, if its children may have inherited it twice.
    pub ambiguous_thread: Option<u32>,
    pub layout: Layout,
    pub format: Option<Arc<Format>>,
    pub shared: Arc<SharedByEvent>,
    pub counts: Arc<Counts>,
    /// How often the filter had been changed when the event was opened.
    pub filter_number: u32,
}

/// What all targets of a registration share.
#[derive(Default)]
pub(crate) struct SharedByEvent {
    ended: AtomicBool,
    /// There was a change of filters.
    changed: AtomicBool,
    pub decoder: Mutex<Option<Decoder>>,
    changes: Mutex<Vec<Change>>,
}

impl std::fmt::Debug for SharedByEvent {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SharedByEvent").field("ended", &self.ended).finish_non_exhaustive()
    }
}

/// A time in which the events with the old and with the new filter were enabled.
#[derive(Debug)]
struct Change {
    from_ns: u64,
    until_ns: u64,
    /// By thread, the last record of the new event, whose occurrence may have a record of the old one too.
    unpaired: HashMap<Option<u32>, Seen>,
}

#[derive(Debug, PartialEq, Eq)]
struct Seen {
    filter_number: u32,
    cpu: u32,
    raw: Vec<u8>,
}

impl SharedByEvent {
    pub fn new(decoder: Option<Decoder>) -> Self {
        Self { decoder: Mutex::new(decoder), ..Self::default() }
    }

    /// Nothing is delivered any more.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Whether [`end`](Self::end) was called.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// In this time an occurrence may have two records.
    pub fn add_change(&self, from_ns: u64, until_ns: u64) {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        changes.retain(|change| change.until_ns.saturating_add(60_000_000_000) > from_ns);
        changes.push(Change { from_ns, until_ns, unpaired: HashMap::new() });
        self.changed.store(true, Ordering::Release);
    }

    /// Whether the record is the second one of an occurrence. The kernel asks the event that was enabled last first: the record with the
    /// new filter comes directly before the one with the old filter.
    pub fn is_second(
        &self,
        filter_number: u32,
        time_ns: u64,
        cpu: u32,
        tid: Option<u32>,
        raw: &[u8],
    ) -> bool {
        if !self.changed.load(Ordering::Acquire) {
            return false;
        }
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let of_time = |change: &&mut Change| (change.from_ns..=change.until_ns).contains(&time_ns);
        let Some(change) = changes.iter_mut().rev().find(of_time) else { return false };
        let before = change.unpaired.remove(&tid);
        if before.is_some_and(|new| new.filter_number > filter_number && new.cpu == cpu && new.raw == raw) {
            return true;
        }
        if change.unpaired.len() < MAX_UNPAIRED {
            change.unpaired.insert(tid, Seen { filter_number, cpu, raw: raw.to_vec() });
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_occurrence_during_a_change_of_filters_counts_once() {
        let event = SharedByEvent::default();
        let second = |filter, time, cpu, raw: &[u8]| event.is_second(filter, time, cpu, Some(1), raw);
        assert!(!second(1, 15, 0, b"a") && !second(0, 15, 0, b"a"), "no change");
        event.add_change(10, 20);
        assert!(!second(1, 9, 0, b"a") && !second(0, 9, 0, b"a"), "before it");
        // Only the old one is enabled, then both, then only the new one.
        let records = [(0, 10), (0, 11), (1, 12), (0, 12), (1, 13), (0, 13), (1, 14), (1, 15)];
        let seen = records.map(|(filter, time)| second(filter, time, 0, b"a"));
        assert_eq!(seen, [false, false, false, true, false, true, false, false]);
        assert!(!second(1, 16, 1, b"a") && !second(0, 16, 0, b"a"), "elsewhere");
        assert!(!second(1, 17, 0, b"a") && !second(0, 17, 0, b"b"), "something else");
        assert!(!second(1, 18, 0, b"a") && !event.is_second(0, 18, 0, Some(2), b"a"), "another thread");
        assert!(second(0, 18, 0, b"a"));
    }
}
