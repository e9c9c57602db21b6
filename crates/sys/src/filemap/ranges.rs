//! The addresses of all [`FileMap`](super::FileMap)s, in a table that a signal handler can read.
//!
//! A handler may interrupt any code of this process, also code that holds a lock or allocates. The table therefore has no
//! lock, and its memory is never freed: blocks of slots that are used again and again.

use std::ops::Range;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};

const SLOTS: usize = 256;

/// The lowest two bits of a slot's state. Each change adds to the state, so a reader sees that a slot was used anew.
const FREE: usize = 0;
const USED: usize = 2;
const PHASES: usize = 4;

/// A range. It is valid if the state is in phase [`USED`] before and after it is read.
struct Slot {
    state: AtomicUsize,
    start: AtomicUsize,
    end: AtomicUsize,
}

struct Block {
    slots: [Slot; SLOTS],
    next: AtomicPtr<Block>,
}

static FIRST: Block = Block::new();

/// A range in the table. It is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Entry(&'static Slot);

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Slot").field(&self.range()).finish()
    }
}

impl Slot {
    const fn new() -> Self {
        Self { state: AtomicUsize::new(FREE), start: AtomicUsize::new(0), end: AtomicUsize::new(0) }
    }

    /// Uses the slot for a range. Returns whether it was free.
    fn claim(&self, range: &Range<usize>) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        let claimed = state.wrapping_add(1);
        if state % PHASES != FREE
            || self.state.compare_exchange(state, claimed, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            return false;
        }
        // A reader that sees one of the two new addresses also sees a new state.
        fence(Ordering::Release);
        self.start.store(range.start, Ordering::Relaxed);
        self.end.store(range.end, Ordering::Relaxed);
        self.state.store(state.wrapping_add(USED), Ordering::Release);
        true
    }

    fn range(&self) -> Option<Range<usize>> {
        let state = self.state.load(Ordering::Acquire);
        let range = self.start.load(Ordering::Relaxed)..self.end.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        (state % PHASES == USED && self.state.load(Ordering::Relaxed) == state).then_some(range)
    }
}

impl Block {
    const fn new() -> Self {
        Self { slots: [const { Slot::new() }; SLOTS], next: AtomicPtr::new(std::ptr::null_mut()) }
    }

    fn next(&self) -> Option<&'static Self> {
        // SAFETY: the pointer is null or comes from a box that was leaked, fully written before it was published.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }

    /// The next block, which is made if there is none.
    fn next_or_new(&self) -> &'static Self {
        if let Some(next) = self.next() {
            return next;
        }
        let new = Box::into_raw(Box::new(Self::new()));
        let null = std::ptr::null_mut();
        match self.next.compare_exchange(null, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: `new` was made from a box above and is never freed.
            Ok(_) => unsafe { &*new },
            Err(other) => {
                // SAFETY: `new` was made from a box above and was not published.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: as in `next`; it is not null.
                unsafe { &*other }
            }
        }
    }
}

/// Adds a range.
pub(super) fn insert(range: &Range<usize>) -> Entry {
    let mut block = &FIRST;
    loop {
        if let Some(slot) = block.slots.iter().find(|slot| slot.claim(range)) {
            return Entry(slot);
        }
        block = block.next_or_new();
    }
}

/// The range that contains an address. Async-signal-safe.
pub(super) fn containing(address: usize) -> Option<Range<usize>> {
    let mut block = Some(&FIRST);
    while let Some(this) = block {
        let mut ranges = this.slots.iter().filter_map(Slot::range);
        if let Some(range) = ranges.find(|range| range.contains(&address)) {
            return Some(range);
        }
        block = this.next();
    }
    None
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.state.fetch_add(PHASES - USED, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses that no mapping of this process has.
    const NOWHERE: usize = 1 << 60;

    fn range(number: usize) -> Range<usize> {
        NOWHERE + number * 0x100..NOWHERE + number * 0x100 + 0x80
    }

    #[test]
    fn ranges_are_found_until_they_are_dropped() {
        let mut entries: Vec<_> = (0..3 * SLOTS).map(|number| insert(&range(number))).collect();
        for number in 0..entries.len() {
            assert_eq!(containing(range(number).start + 0x7f), Some(range(number)));
            assert_eq!(containing(range(number).end), None);
        }
        entries.drain(..SLOTS);
        assert_eq!(containing(range(SLOTS - 1).start), None);
        assert_eq!(containing(range(SLOTS).start), Some(range(SLOTS)));
    }

    #[test]
    fn readers_see_whole_ranges_while_others_write() {
        const BASE: usize = 1 << 20;
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for round in 0..2000 {
                        let own = range(BASE + thread * 4096 + round);
                        let _entry = insert(&own);
                        assert_eq!(containing(own.start), Some(own));
                        // Between the ranges of all threads: only a mixture of two ranges contains it.
                        assert_eq!(containing(range(BASE + thread * 4096 + round).end + 1), None);
                    }
                });
            }
        });
    }
}
