//! The intervals that were cut and whose names are not complete: a queue with bounds.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::Recording;

/// Intervals that wait for names. Beyond that the oldest ones are written with the names that they have.
const MAX_INTERVALS: usize = 64;
/// The same, by the size of their stacks and counts in bytes.
const MAX_BYTES: usize = 64 << 20;
/// Intervals in the queue, also those that only wait for their files to be written. Beyond that the next cut waits.
const MAX_UNWRITTEN: usize = 2 * MAX_INTERVALS;

/// An interval, and about how much memory it takes.
#[derive(Debug)]
struct Waiting {
    recording: Recording,
    bytes: usize,
    given_up: bool,
}

#[derive(Debug, Default)]
struct State {
    /// The oldest one first.
    intervals: VecDeque<Waiting>,
    /// Nothing more comes.
    closed: bool,
    /// Nobody waits for room any more.
    ending: bool,
    /// Nobody takes intervals any more.
    abandoned: bool,
}

/// The queue between the thread that cuts and the thread that takes the recordings.
#[derive(Debug, Default)]
pub(super) struct PendingIntervals {
    state: Mutex<State>,
    changed: Condvar,
}

impl PendingIntervals {
    /// Adds an interval. `bytes`: see [`approximate_bytes`]. If too many wait for names, the search for the names of the oldest is ended. False if nobody
    /// takes it.
    pub(super) fn push(&self, recording: Recording, bytes: usize) -> bool {
        let is_full =
            |state: &mut State| state.intervals.len() >= MAX_UNWRITTEN && !state.ending && !state.abandoned;
        let waited = self.changed.wait_while(self.lock(), is_full);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.abandoned {
            return false;
        }
        state.intervals.push_back(Waiting { recording, bytes, given_up: false });
        give_up_oldest(&mut state.intervals);
        self.changed.notify_all();
        true
    }

    /// Nobody takes intervals any more.
    pub(super) fn abandon(&self) {
        let mut state = self.lock();
        state.abandoned = true;
        state.intervals.clear();
        drop(state);
        self.changed.notify_all();
    }

    /// Nothing more comes.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// The capture ends: nobody waits for room any more.
    pub(super) fn end(&self) {
        self.lock().ending = true;
        self.changed.notify_all();
    }

    /// The oldest interval, with its names. Waits for both. `None` after the last one.
    pub(super) fn next(&self) -> Option<Recording> {
        let empty = |state: &mut State| state.intervals.is_empty() && !state.closed;
        let waited = self.changed.wait_while(self.lock(), empty);
        let oldest = waited.unwrap_or_else(PoisonError::into_inner).intervals.front()?.recording.clone();
        // It stays in the queue meanwhile, so that the search can be ended.
        oldest.findings();
        self.lock().intervals.pop_front();
        self.changed.notify_all();
        Some(oldest)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the search for names of the oldest intervals beyond the bounds. The newest one keeps it.
fn give_up_oldest(intervals: &mut VecDeque<Waiting>) {
    let (mut count, mut bytes) = (0, 0);
    for waiting in intervals.iter_mut().rev().filter(|waiting| !waiting.given_up) {
        count += 1;
        bytes += waiting.bytes;
        if count > 1 && (count > MAX_INTERVALS || bytes > MAX_BYTES) {
            waiting.given_up = true;
            waiting.recording.abandon_symbolization();
        }
    }
}

/// About how much memory the stacks and counts of a recording take.
pub(super) fn approximate_bytes(recording: &recording::Recording) -> usize {
    let recording::Recording { frames, stacks, task_stacks, counts, .. } = recording;
    let of_stacks: usize = stacks.iter().map(|stack| size_of_val(&*stack.frames)).sum();
    let of_counts: usize =
        counts.iter().map(|count| size_of_val(&*count.values) + size_of_val(&*count.links)).sum();
    let tables = size_of_val(&**frames) + size_of_val(&**stacks) + size_of_val(&**task_stacks);
    tables + size_of_val(&**counts) + of_stacks + of_counts
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn interval() -> Recording {
        Recording::default()
    }

    #[test]
    fn intervals_come_in_their_order_and_end_with_the_last_one() {
        let pending = PendingIntervals::default();
        for start_ns in 1..=3 {
            let mut model = recording::SymbolizedRecording::default();
            model.recording.span.start_ns = start_ns;
            assert!(pending.push(Recording::new(model), 1));
        }
        pending.close();
        let starts: Vec<_> =
            std::iter::from_fn(|| pending.next()).map(|next| next.model().recording.span.start_ns).collect();
        assert_eq!(starts, [1, 2, 3]);
    }

    fn given_up(bytes: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let pending = PendingIntervals::default();
        bytes.into_iter().for_each(|bytes| assert!(pending.push(interval(), bytes)));
        let state = pending.lock();
        let given_up = state.intervals.iter().enumerate().filter(|(_, waiting)| waiting.given_up);
        given_up.map(|(at, _)| at).collect()
    }

    #[test]
    fn the_names_of_the_oldest_are_given_up_beyond_the_bounds() {
        assert_eq!(given_up([1; MAX_INTERVALS]), [0; 0]);
        assert_eq!(given_up([1; MAX_INTERVALS + 2]), [0, 1]);
        assert_eq!(given_up([MAX_BYTES / 2; 4]), [0, 1]);
        assert_eq!(given_up([MAX_BYTES, 1, MAX_BYTES + 1]), [0, 1]);
    }

    #[test]
    fn a_cut_waits_while_too_many_intervals_are_not_written() {
        let pending = Arc::new(PendingIntervals::default());
        (0..MAX_UNWRITTEN).for_each(|_| assert!(pending.push(interval(), 1)));
        let theirs = Arc::clone(&pending);
        let cutter = std::thread::spawn(move || theirs.push(interval(), 1));
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!cutter.is_finished());
        assert!(pending.next().is_some());
        assert!(cutter.join().unwrap());
        // At the end there is no wait, though the queue is full.
        let theirs = Arc::clone(&pending);
        let cutter = std::thread::spawn(move || theirs.push(interval(), 1));
        pending.end();
        testkit::until("the end of the wait", || cutter.is_finished());
        assert!(cutter.join().unwrap() && pending.lock().intervals.len() == MAX_UNWRITTEN + 1);
        pending.abandon();
        assert!(!pending.push(interval(), 1));
    }
}
