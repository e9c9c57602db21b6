//! What the view keeps of a mode: stacks with their sums since the start, and second by second for the last minute.
//!
//! Guaranteed: memory is bounded. Where there are more stacks or longer names than the limits allow, the lightest stacks become one for each
//! program, `[lighter stacks]`, and the sums stay right.

mod owner;
mod tables;

use std::cmp::Reverse;
use std::collections::{HashSet, VecDeque};

use indexmap::IndexMap;
use profile::{Label, LocationId, Profile};

pub(crate) use self::owner::Owner;
use self::tables::Tables;
use crate::figures::Figures;
use crate::frames::Frame;
use crate::range::Range;

/// Intervals that are kept one by one.
const RECENT: usize = 60;

/// The only frame of the stacks that were merged.
const LIGHTER: &str = "[lighter stacks]";
/// Programs that have a stack of their own for that.
const MAX_PROGRAMS: usize = 256;

/// How much a window keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) stacks: usize,
    pub(crate) bytes: usize,
}

const LIMITS: Limits = Limits { stacks: 20_000, bytes: 48 << 20 };

/// A count and a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) count: u64,
    pub(crate) value: u64,
}

impl Sums {
    fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.value = self.value.saturating_add(other.value);
    }
}

/// A stack of a thread.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    pub(crate) owner: u32,
    /// Frames, outermost first. The first one is the process.
    pub(crate) path: Box<[u32]>,
    /// What was counted since the start.
    pub(crate) sums: Sums,
}

/// An interval.
#[derive(Clone, Debug, Default)]
struct Slice {
    start_ns: i64,
    length_ns: u64,
    /// Sums by number of the stack, each number once.
    sums: Vec<(u32, Sums)>,
    figures: Figures,
}

/// The stacks of a mode.
#[derive(Clone, Debug)]
pub struct Window {
    limits: Limits,
    /// Value types and periods as the profiles have them, without content.
    header: Profile,
    tables: Tables,
    stacks: IndexMap<(u32, Box<[LocationId]>), Stack>,
    recent: VecDeque<Slice>,
    length_ns: u64,
    figures: Figures,
}

impl Default for Window {
    fn default() -> Self {
        Self::with_limits(LIMITS)
    }
}

impl Window {
    pub(crate) fn with_limits(limits: Limits) -> Self {
        Self {
            limits,
            header: Profile::default(),
            tables: Tables::default(),
            stacks: IndexMap::new(),
            recent: VecDeque::new(),
            length_ns: 0,
            figures: Figures::default(),
        }
    }

    /// Adds an interval.
    pub fn add(&mut self, profile: &Profile, figures: Figures) {
        if self.header.sample_types.is_empty() {
            self.header = Profile {
                mappings: Vec::new(),
                functions: Vec::new(),
                locations: Vec::new(),
                samples: Vec::new(),
                ..profile.clone()
            };
        }
        let mut slice = Slice {
            start_ns: profile.time_ns,
            length_ns: u64::try_from(profile.duration_ns).unwrap_or(0),
            figures,
            ..Slice::default()
        };
        let locations = self.tables.take_in(profile);
        let mut sums: IndexMap<u32, Sums> = IndexMap::new();
        for sample in &profile.samples {
            let value = |number: usize| {
                sample.values.get(number).copied().and_then(|value| u64::try_from(value).ok()).unwrap_or(0)
            };
            let own = Sums { count: value(0), value: value(profile.default_value()) };
            if own == Sums::default() {
                continue;
            }
            let stack: Box<[LocationId]> =
                sample.locations.iter().filter_map(|id| locations.get(id.0 as usize)).copied().collect();
            let number = self.count(&sample.labels, stack, own);
            sums.entry(number).or_default().add(own);
        }
        slice.sums = sums.into_iter().collect();
        self.length_ns = self.length_ns.saturating_add(slice.length_ns);
        self.figures = self.figures.plus(figures);
        self.recent.push_back(slice);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        self.keep_small();
    }

    /// Merges the lightest stacks if there are too many.
    fn keep_small(&mut self) {
        let mut kept = self.limits.stacks;
        while kept > 0 && (self.stacks.len() > self.limits.stacks || self.tables.bytes() > self.limits.bytes)
        {
            // Half of the room stays free, so that this is seldom done.
            kept /= 2;
            self.keep_heaviest(kept);
        }
    }

    fn keep_heaviest(&mut self, kept: usize) {
        let mut by_weight: Vec<usize> = (0..self.stacks.len()).collect();
        by_weight
            .sort_by_key(|number| Reverse(self.stacks.get_index(*number).map(|(_, stack)| stack.sums.value)));
        let heavy: HashSet<usize> = by_weight.into_iter().take(kept).collect();
        let mut new = Self {
            header: std::mem::take(&mut self.header),
            length_ns: self.length_ns,
            figures: self.figures,
            ..Self::with_limits(self.limits)
        };
        let mut numbers = Vec::with_capacity(self.stacks.len());
        let mut programs = HashSet::new();
        for (number, ((_, locations), stack)) in self.stacks.iter().enumerate() {
            let labels = &self.owner(stack).labels;
            numbers.push(if heavy.contains(&number) {
                let locations: Box<[LocationId]> =
                    locations.iter().map(|id| new.tables.take_over(&self.tables, *id)).collect();
                new.count(labels, locations, stack.sums)
            } else {
                let program = labels.iter().find(|label| label.key == "comm").cloned();
                let is_room = programs.len() < MAX_PROGRAMS || programs.contains(&program);
                let program: Option<Label> = program.filter(|_| is_room);
                programs.insert(program.clone());
                let fact = new.tables.fact(LIGHTER);
                new.count(program.as_slice(), [fact].into(), stack.sums)
            });
        }
        new.recent = std::mem::take(&mut self.recent);
        for slice in &mut new.recent {
            let mut sums: IndexMap<u32, Sums> = IndexMap::new();
            for (number, own) in slice.sums.drain(..) {
                if let Some(number) = numbers.get(number as usize) {
                    sums.entry(*number).or_default().add(own);
                }
            }
            slice.sums = sums.into_iter().collect();
        }
        *self = new;
    }

    /// Adds to a stack. Gives its number.
    fn count(&mut self, labels: &[Label], locations: Box<[LocationId]>, sums: Sums) -> u32 {
        let owner = self.tables.owner(labels);
        let entry = self.stacks.entry((owner, locations));
        let number = entry.index();
        let tables = &mut self.tables;
        let stack = match entry {
            indexmap::map::Entry::Occupied(known) => known.into_mut(),
            indexmap::map::Entry::Vacant(new) => {
                let path = tables.path(owner, &new.key().1);
                new.insert(Stack { owner, path, sums: Sums::default() })
            }
        };
        stack.sums.add(sums);
        u32::try_from(number).unwrap_or(u32::MAX)
    }

    /// All stacks, each with what it has in a range of time.
    pub(crate) fn stacks(&self, range: Range) -> Vec<(&Stack, Sums)> {
        let Some(intervals) = range.intervals() else {
            return self.stacks.values().map(|stack| (stack, stack.sums)).collect();
        };
        let mut sums = vec![Sums::default(); self.stacks.len()];
        for slice in self.recent.iter().rev().take(intervals) {
            for (number, own) in &slice.sums {
                if let Some(sum) = sums.get_mut(*number as usize) {
                    sum.add(*own);
                }
            }
        }
        self.stacks.values().zip(sums).filter(|(_, sums)| *sums != Sums::default()).collect()
    }

    /// Stacks with their locations, innermost first.
    pub(crate) fn with_locations(&self) -> impl Iterator<Item = (&[LocationId], &Stack)> {
        self.stacks.iter().map(|((_, locations), stack)| (&**locations, stack))
    }

    pub(crate) fn owner(&self, of: &Stack) -> &Owner {
        self.tables.owner_numbered(of.owner)
    }

    pub(crate) fn frame(&self, number: u32) -> &Frame {
        self.tables.frame(number)
    }

    pub(crate) fn frame_key(&self, number: u32) -> u64 {
        self.tables.frame_key(number)
    }

    pub(crate) fn frames(&self) -> usize {
        self.tables.frames()
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    pub(crate) fn header(&self) -> &Profile {
        &self.header
    }

    /// Begin of a range of time, in ns since the epoch, and its length in ns.
    pub(crate) fn span(&self, range: Range) -> (i64, u64) {
        match range.intervals() {
            None => (self.header.time_ns, self.length_ns),
            Some(intervals) => {
                let slices = || self.recent.iter().rev().take(intervals);
                (
                    slices().next_back().map_or(0, |slice| slice.start_ns),
                    slices().map(|slice| slice.length_ns).sum(),
                )
            }
        }
    }

    /// The figures of a range of time.
    pub(crate) fn figures(&self, range: Range) -> Figures {
        match range.intervals() {
            None => self.figures,
            Some(intervals) => self
                .recent
                .iter()
                .rev()
                .take(intervals)
                .fold(Figures::default(), |sum, slice| sum.plus(slice.figures)),
        }
    }

    /// The time of each of the last intervals, as a share of its length: 1 is one CPU or one waiting thread. The oldest first. Only of stacks for
    /// which `counts` says so.
    pub(crate) fn history(&self, counts: impl Fn(&Stack) -> bool) -> Vec<f64> {
        let counted: Vec<bool> = self.stacks.values().map(counts).collect();
        let share = |slice: &Slice| {
            let own = slice.sums.iter().filter(|(number, _)| counted.get(*number as usize) == Some(&true));
            let value: u64 = own.map(|(_, sums)| sums.value).sum();
            value as f64 / slice.length_ns.max(1) as f64
        };
        self.recent.iter().map(share).collect()
    }
}

#[cfg(test)]
mod tests;
