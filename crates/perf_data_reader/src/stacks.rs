//! Places in code, stacks of them, and how often each stack came: each is kept once.

use indexmap::map::Entry;
use indexmap::{IndexMap, IndexSet};

use crate::budget::{Budget, Full};

/// Bytes of an item in a table, with its share of the table.
const ITEM: usize = 64;
/// Bytes of stacks as they stand in the file, whose places are remembered.
const MAX_REMEMBERED: usize = 32 << 20;

/// Why a stack ends before its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cut {
    NoMapping,
    NoRow,
    Rule,
    FramePointers,
    Zero,
    Fault,
    Limit,
}

impl Cut {
    /// The frame that says so.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NoMapping => "[truncated: unknown mapping]",
            Self::NoRow => "[truncated: no unwind info]",
            Self::Rule => "[truncated: unsupported unwind rule]",
            Self::FramePointers => "[truncated: broken frame pointers]",
            Self::Zero => "[truncated: frame pointer is zero]",
            Self::Fault => "[truncated: unreadable stack]",
            Self::Limit => "[truncated: frame limit]",
        }
    }
}

/// What a place is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Within {
    /// A file, by number; the address is an offset in it.
    File(u32),
    Vdso(u32),
    /// Memory without a file, of a process: the mapping with its neighbours of the same kind.
    Anonymous {
        pid: i32,
        start: u64,
        end: u64,
    },
    Kernel,
    /// No mapping that is known, or a guest.
    Unknown,
    /// No place: the stack is cut there.
    Cut(Cut),
}

/// A place in code: of an instruction, or of the last byte of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) within: Within,
    pub(crate) address: u64,
}

/// A thread under its names at the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Task {
    pub(crate) pid: i32,
    /// Number of the name of its process.
    pub(crate) process: u32,
    pub(crate) tid: i32,
    pub(crate) thread: u32,
}

/// Samples of one event with one stack in one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) samples: u64,
    pub(crate) periods: u64,
}

/// When a sample was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Time {
    /// The number of its sum.
    sum: u32,
    time: u64,
    period: u64,
}

/// The times of all samples or, of many, of each second, fourth, eighth one and so on: they are for a picture.
#[derive(Default)]
struct Times {
    kept: Vec<Time>,
    /// One of 2 to this power is kept.
    power: u32,
    seen: u64,
}

impl Times {
    /// Times that are kept.
    const MOST: usize = 1 << 20;

    fn add(&mut self, time: Time) {
        let is_kept = self.seen.trailing_zeros() >= self.power;
        self.seen += 1;
        if !is_kept {
            return;
        }
        if self.kept.len() == Self::MOST {
            self.power += 1;
            let mut number = 0_u32;
            self.kept.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            return self.add_again(time);
        }
        self.kept.push(time);
    }

    /// Keeps the time that came when there was no more room, if it still belongs to those that are kept.
    fn add_again(&mut self, time: Time) {
        if (self.seen - 1).trailing_zeros() >= self.power {
            self.kept.push(time);
        }
    }
}

/// What samples showed.
#[derive(Default)]
pub(crate) struct Stacks {
    places: IndexSet<Place>,
    stacks: IndexSet<Box<[u32]>>,
    tasks: IndexSet<Task>,
    sums: IndexMap<(u32, u32, u32), Sum>,
    times: Times,
    /// Stacks as they stand in the file, after what else decides their places.
    remembered: IndexMap<Box<[u64]>, u32>,
    remembered_bytes: usize,
}

impl Stacks {
    /// The number of the stack that was entered for these words before.
    pub(crate) fn remembered(&self, words: &[u64]) -> Option<u32> {
        self.remembered.get(words).copied()
    }

    pub(crate) fn remember(&mut self, words: &[u64], stack: u32) {
        self.remembered_bytes += size_of_val(words) + ITEM;
        if self.remembered_bytes > MAX_REMEMBERED {
            self.remembered_bytes = 0;
            self.remembered.clear();
        }
        self.remembered.insert(words.into(), stack);
    }

    /// The number of a stack, innermost place first. A new one is added.
    pub(crate) fn stack(&mut self, places: &[Place], budget: &mut Budget) -> Result<u32, Full> {
        let mut numbers = Vec::with_capacity(places.len());
        for place in places {
            let (number, is_new) = self.places.insert_full(*place);
            if is_new {
                budget.charge(ITEM)?;
            }
            numbers.push(u32::try_from(number).map_err(|_| Full)?);
        }
        if let Some(number) = self.stacks.get_index_of(numbers.as_slice()) {
            return u32::try_from(number).map_err(|_| Full);
        }
        budget.charge(size_of_val(numbers.as_slice()) + ITEM)?;
        let (number, _) = self.stacks.insert_full(numbers.into());
        u32::try_from(number).map_err(|_| Full)
    }

    /// Counts a sample.
    pub(crate) fn add(
        &mut self,
        event: usize,
        task: Task,
        stack: u32,
        (time, period): (Option<u64>, u64),
        budget: &mut Budget,
    ) -> Result<(), Full> {
        let (task, is_new) = self.tasks.insert_full(task);
        if is_new {
            budget.charge(ITEM)?;
        }
        let key = (u32::try_from(event).map_err(|_| Full)?, u32::try_from(task).map_err(|_| Full)?, stack);
        let entry = self.sums.entry(key);
        let number = u32::try_from(entry.index()).map_err(|_| Full)?;
        if matches!(entry, Entry::Vacant(_)) {
            budget.charge(ITEM)?;
        }
        let sum = entry.or_default();
        sum.samples += 1;
        sum.periods = sum.periods.saturating_add(period);
        if let Some(time) = time {
            self.times.add(Time { sum: number, time, period });
        }
        Ok(())
    }

    /// The sums of an event, each with its number.
    pub(crate) fn of_event(&self, event: usize) -> impl Iterator<Item = (u32, Task, &[u32], Sum)> {
        let of_event = move |(_, (key, _)): &(u32, (&(u32, u32, u32), &Sum))| key.0 as usize == event;
        (0..).zip(&self.sums).filter(of_event).filter_map(|(number, ((_, task, stack), sum))| {
            let task = self.tasks.get_index(*task as usize)?;
            let stack = self.stacks.get_index(*stack as usize)?;
            Some((number, *task, &**stack, *sum))
        })
    }

    /// The times of samples, each with the number of its sum and its period.
    pub(crate) fn times(&self) -> impl Iterator<Item = (u32, u64, u64)> {
        self.times.kept.iter().map(|of| (of.sum, of.time, of.period))
    }

    pub(crate) fn place(&self, number: u32) -> Option<Place> {
        self.places.get_index(number as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_times_every_second_one_is_kept_and_so_on() {
        let mut times = Times::default();
        let most = Times::MOST as u64;
        for time in 0..most {
            times.add(Time { sum: 0, time, period: 1 });
        }
        assert_eq!(times.kept.len(), Times::MOST);
        for time in most..3 * most {
            times.add(Time { sum: 0, time, period: 1 });
        }
        let kept: Vec<u64> = times.kept.iter().map(|of| of.time).collect();
        assert_eq!(kept, (0..3 * most).step_by(4).collect::<Vec<_>>());
    }
}
