//! What waits for memory of the kernel side, and when it is tried again: not in each round, because each try costs time, and the less often
//! the more often it failed.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Time between two looks for room.
const EACH: Duration = Duration::from_millis(250);
/// After the first try that failed, the next one comes after this time; after each further one, after twice the time before.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(64);

/// When something that found no room may be tried again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    next: Duration,
    due: Option<Instant>,
    /// When it last found room.
    found: Option<Instant>,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { next: FIRST_PAUSE, due: None, found: None }
    }
}

impl Pauses {
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due.is_none_or(|due| due <= now)
    }

    /// It found no room, or lost it again.
    pub(super) fn pause(&mut self, now: Instant) {
        if self.found.take().is_some_and(|found| now.saturating_duration_since(found) >= LONGEST_PAUSE) {
            self.next = FIRST_PAUSE;
        }
        self.due = Some(now + self.next);
        self.next = (2 * self.next).min(LONGEST_PAUSE);
    }

    /// It has found room.
    pub(super) fn has_room(&mut self, now: Instant) {
        self.found = Some(now);
    }
}

/// The lists of mappings that wait for room.
#[derive(Default)]
pub(super) struct Waiting {
    /// Processes, and how many mappings each has.
    processes: HashMap<u32, (usize, Pauses)>,
    looked: Option<Instant>,
}

impl Waiting {
    /// The mappings of a process found no room.
    pub(super) fn add(&mut self, pid: u32, mappings: usize, now: Instant) {
        let (count, pauses) = self.processes.entry(pid).or_default();
        *count = mappings;
        pauses.pause(now);
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

    /// The processes that may be tried again, and how many mappings each has.
    pub(super) fn due(&self, now: Instant) -> impl Iterator<Item = (u32, usize)> {
        let due = self.processes.iter().filter(move |(_, (_, pauses))| pauses.is_due(now));
        due.map(|(pid, (mappings, _))| (*pid, *mappings))
    }

    /// A process found no room again.
    pub(super) fn pause(&mut self, pid: u32, now: Instant) {
        if let Some((_, pauses)) = self.processes.get_mut(&pid) {
            pauses.pause(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_tried_less_and_less_often() {
        let begin = Instant::now();
        let mut pauses = Pauses::default();
        assert!(pauses.is_due(begin));
        let mut waits = Vec::new();
        for _ in 0..10 {
            pauses.pause(begin);
            waits.push((1..1000).find(|n| pauses.is_due(begin + *n * FIRST_PAUSE)).unwrap());
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 128, 128]);
        // It had room for a moment, and then for long.
        pauses.has_room(begin);
        pauses.pause(begin + LONGEST_PAUSE / 2);
        assert!(!pauses.is_due(begin + LONGEST_PAUSE));
        pauses.has_room(begin);
        pauses.pause(begin + LONGEST_PAUSE);
        assert!(pauses.is_due(begin + LONGEST_PAUSE + FIRST_PAUSE));
    }

    #[test]
    fn lists_without_room_are_tried_again_after_their_pause() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        waiting.add(7, 100, now);
        waiting.add(8, 200, now);
        waiting.forget(8);
        assert!(waiting.is_due(now) && !waiting.is_due(now + EACH / 2) && waiting.is_due(now + EACH));
        assert_eq!(waiting.due(now).count(), 0);
        assert!(waiting.due(now + FIRST_PAUSE).eq([(7, 100)]));
        waiting.pause(7, now + FIRST_PAUSE);
        assert_eq!(waiting.due(now + 2 * FIRST_PAUSE).count(), 0);
        assert_eq!(waiting.due(now + 3 * FIRST_PAUSE).count(), 1);
        waiting.forget(7);
        assert!(!waiting.has_processes());
    }
}
