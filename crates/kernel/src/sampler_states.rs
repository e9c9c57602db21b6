//! The counters of each slot of the programs, read through `mmap`: `struct sampler_state` of `bpf/sampler_state.h`.

use std::mem::{offset_of, size_of};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::{MapCore, MapHandle};
use memmap2::{MmapOptions, MmapRaw};

use crate::Error;
use crate::abi::skeleton::types;
use crate::counters::{COUNTERS, Counter};
use crate::sum_key::Event;

const WORDS: usize = size_of::<types::sampler_state>() / 8;
const TICKS_AT: usize = offset_of!(types::sampler_state, ticks) / 8;
const IDLE_TICKS_AT: usize = offset_of!(types::sampler_state, idle_ticks) / 8;
const COUNTERS_AT: usize = offset_of!(types::sampler_state, counters) / 8;
/// Events with counters of their own.
const EVENTS: usize = types::event::COUNTED_EVENTS.0 as usize;
/// The programs add to one side while user space empties the other.
const SIDES: usize = 2;
const BUSY_AT: usize = offset_of!(types::sampler_state, busy) / 8;
const PENDING_AT: usize = offset_of!(types::sampler_state, pending) / 8;
const PENDING_WORDS: usize = size_of::<types::pending_counts>() / 8;

const _: () = {
    assert!(size_of::<types::sampler_state>().is_multiple_of(8));
    assert!(offset_of!(types::sampler_state, ticks).is_multiple_of(8));
    assert!(offset_of!(types::sampler_state, idle_ticks).is_multiple_of(8));
    assert!(offset_of!(types::sampler_state, busy).is_multiple_of(8));
    assert!(offset_of!(types::sampler_state, counters).is_multiple_of(8));
    assert!(offset_of!(types::sampler_state, pending).is_multiple_of(8));
    assert!(size_of::<types::counters>() == COUNTERS * 8);
    assert!(PENDING_AT - COUNTERS_AT == EVENTS * SIDES * COUNTERS);
    assert!(size_of::<types::pending_count>() == 16);
    assert!(offset_of!(types::pending_count, key) == 0 && offset_of!(types::pending_count, count) == 8);
};

/// Runs of the program of the sampling event on a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// Whether they took a sample or not.
    pub all: u64,
    /// Of these, those while the CPU was idle. Some CPUs have none: Linux 6.18 in a virtual machine ran none on one of two idle CPUs.
    pub idle: u64,
}

/// The states of all slots. Those of further sampled events come last, as many for each of them.
pub(crate) struct SamplerStates {
    memory: MmapRaw,
    slots: u32,
    further: Further,
}

/// Which slots belong to further sampled events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Further {
    /// The first slot.
    pub(crate) first: u32,
    /// Slots of each.
    pub(crate) of_each: u32,
    /// The number of such events.
    pub(crate) events: usize,
}

impl Further {
    /// The slots of an event by its number among the sampled ones. The first one shares its slots with the programs that follow threads.
    pub(crate) fn slots_of(self, number: usize) -> Range<u32> {
        match number.checked_sub(1) {
            None => 0..self.first,
            Some(before) => {
                let first = self.first + before as u32 * self.of_each;
                first..first + self.of_each
            }
        }
    }
}

impl SamplerStates {
    pub(crate) fn new(map: &MapHandle, further: Further) -> Result<Self, Error> {
        if map.value_size() as usize != WORDS * 8 {
            return Err(Error::Missing { kind: "map", name: "sampler_states" });
        }
        let slots = map.max_entries();
        let memory = MmapOptions::new()
            .len(slots as usize * WORDS * 8)
            .map_raw(map.as_fd().as_raw_fd())
            .map_err(|source| Error::Mmap { map: "sampler_states", source })?;
        Ok(Self { memory, slots, further })
    }

    fn words(&self) -> &[AtomicU64] {
        let words = self.memory.as_mut_ptr().cast::<AtomicU64>();
        // SAFETY: the mapping has that many words, is page aligned and lives as long as `self`; all access is atomic.
        unsafe { std::slice::from_raw_parts(words, self.slots as usize * WORDS) }
    }

    /// The counters of an event on one side, in each of these slots.
    fn counters_of(
        &self,
        event: Event,
        side: usize,
        slots: Range<u32>,
    ) -> impl Iterator<Item = &[AtomicU64]> {
        let in_slot = COUNTERS_AT + (event as usize * SIDES + side) * COUNTERS;
        let at = slots.map(move |slot| slot as usize * WORDS + in_slot);
        at.map(|at| self.words().get(at..at + COUNTERS).unwrap_or_default())
    }

    /// Runs on one side that found their state claimed, in each of these slots.
    fn busy(&self, side: usize, slots: Range<u32>) -> impl Iterator<Item = &AtomicU64> {
        slots.filter_map(move |slot| self.words().get(slot as usize * WORDS + BUSY_AT + side))
    }

    /// How often the program of the sampling event ran in a slot.
    pub(crate) fn ticks(&self, slot: u32) -> Ticks {
        let word = |at: usize| {
            self.words().get(slot as usize * WORDS + at).map_or(0, |ticks| ticks.load(Ordering::Relaxed))
        };
        Ticks { all: word(TICKS_AT), idle: word(IDLE_TICKS_AT) }
    }

    /// How many events are sampled beside the first one.
    pub(crate) fn further_events(&self) -> usize {
        self.further.events
    }

    /// Adds up what the programs that follow threads have counted on one side.
    pub(crate) fn of_threads(&self, side: usize) -> [u64; COUNTERS] {
        self.sum(Event::Scheduler, side, self.further.slots_of(0))
    }

    /// Adds up the counters of a sampled event on one side, by its number.
    pub(crate) fn of_sampled(&self, number: usize, side: usize) -> [u64; COUNTERS] {
        let slots = self.further.slots_of(number);
        let mut sums = self.sum(Event::Clock, side, slots.clone());
        let busy = self.busy(side, slots).map(|runs| runs.load(Ordering::Relaxed));
        sums[Counter::LostBusy as usize] += busy.sum::<u64>();
        sums
    }

    fn sum(&self, event: Event, side: usize, slots: Range<u32>) -> [u64; COUNTERS] {
        let mut sums = [0; COUNTERS];
        for counters in self.counters_of(event, side, slots) {
            for (sum, counter) in sums.iter_mut().zip(counters) {
                *sum += counter.load(Ordering::Relaxed);
            }
        }
        sums
    }

    /// Sets the counters of a side to 0. No program may be adding to that side.
    pub(crate) fn clear_counters(&self, side: usize) {
        for event in [Event::Clock, Event::Scheduler] {
            let counters = self.counters_of(event, side, 0..self.slots).flatten();
            counters.for_each(|counter| counter.store(0, Ordering::Relaxed));
        }
        self.busy(side, 0..self.slots).for_each(|runs| runs.store(0, Ordering::Relaxed));
    }

    /// Takes the pending keys and counts of a side out of the slots. No program may be adding to that side. The keys are
    /// cleared too, because the programs assume that the table has an entry for each pending key.
    pub(crate) fn take_pending(&self, side: usize, mut each: impl FnMut(u64, u64)) {
        for slot in 0..self.slots as usize {
            let at = slot * WORDS + PENDING_AT + side * PENDING_WORDS;
            let pending = self.words().get(at..at + PENDING_WORDS).unwrap_or_default();
            for [key, count] in pending.as_chunks::<2>().0 {
                let (key, count) = (key.swap(0, Ordering::Relaxed), count.swap(0, Ordering::Relaxed));
                if count > 0 {
                    each(key, count);
                }
            }
        }
    }
}
