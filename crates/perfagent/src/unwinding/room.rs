//! What waits for memory of the kernel side, and when it is tried again: not before there is room for it, and not in each round, because
//! each try costs time.

use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Time between two looks for room.
const EACH: Duration = Duration::from_secs(1);
/// The mappings of a process are tried again when so much is free: more than one process may have.
const FOR_MAPPINGS: usize = 1 << 20;
/// A table needs its room in few pieces, so a little more than its size must be free.
const SLACK: usize = 64 << 10;

/// What waits for room.
#[derive(Default)]
pub(super) struct Waiting {
    /// Processes whose mappings found no room.
    processes: HashSet<u32>,
    looked: Option<Instant>,
}

/// A table that found no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitingTable {
    pub(super) number: u64,
    pub(super) bytes: usize,
    /// Samples that needed it since it was last tried.
    pub(super) hits: u64,
}

impl Waiting {
    /// The mappings of a process found no room.
    pub(super) fn add(&mut self, pid: u32) {
        self.processes.insert(pid);
    }

    pub(super) fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    pub(super) fn has_processes(&self) -> bool {
        !self.processes.is_empty()
    }

    /// Whether it is time to look for room.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= EACH);
        if is_due {
            self.looked = Some(now);
        }
        is_due
    }

    /// The processes whose mappings may find room now.
    pub(super) fn take_processes(&mut self, free: usize) -> HashSet<u32> {
        if free < FOR_MAPPINGS { HashSet::new() } else { std::mem::take(&mut self.processes) }
    }
}

/// The numbers of the tables for which there is room, those first that most samples need. A table that no sample needs does not come.
pub(super) fn that_fit(mut tables: Vec<WaitingTable>, mut free: usize) -> Vec<u64> {
    tables.retain(|table| table.hits > 0);
    tables.sort_unstable_by_key(|table| (std::cmp::Reverse(table.hits), table.number));
    let fit = tables.into_iter().filter(|table| {
        let needed = table.bytes + SLACK;
        let fits = needed <= free;
        free -= if fits { needed } else { 0 };
        fits
    });
    fit.map(|table| table.number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_most_samples_need_gets_room_first() {
        let table = |number: u64, hits: u64| WaitingTable { number, bytes: 1 << 20, hits };
        let all = vec![table(1, 5), table(2, 0), table(3, 70), table(4, 6)];
        assert_eq!(that_fit(all.clone(), 5 << 20), [3, 4, 1]);
        assert_eq!(that_fit(all.clone(), (2 << 20) + 2 * SLACK), [3, 4]);
        assert_eq!(that_fit(all, 1 << 20), [0; 0]);
    }

    #[test]
    fn processes_without_room_are_tried_again_when_there_is_some() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        waiting.add(7);
        waiting.add(8);
        waiting.forget(8);
        assert!(waiting.is_due(now) && !waiting.is_due(now + EACH / 2) && waiting.is_due(now + EACH));
        assert_eq!(waiting.take_processes(FOR_MAPPINGS - 1), HashSet::new());
        assert_eq!(waiting.take_processes(FOR_MAPPINGS), HashSet::from([7]));
        assert!(!waiting.has_processes());
    }
}
