//! Single samples while a recording is built. A sample refers to its stack by the key of the sums, so it may arrive before its stack.

use std::collections::HashMap;

use crate::builder::keys::Key;
use crate::count::TaskStackId;
use crate::event::EventId;
use crate::model::Recording;
use crate::single::{Single, Singles};

/// When and where one sample was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// ns of the monotonic clock.
    pub time_ns: u64,
    /// The CPU.
    pub cpu: u32,
    /// The thread.
    pub tid: u32,
    /// Number of the interval that its sum belongs to, as the kernel side counts: see [`Builder::set_seam`](crate::Builder::set_seam).
    pub interval: u32,
    /// The key of the stack that ended a wait.
    pub waker: Option<u64>,
    /// By the schema of the event.
    pub values: Vec<u64>,
}

/// A sample whose stack is known.
#[derive(Debug)]
struct Known {
    event: EventId,
    stack: TaskStackId,
    occurrence: Occurrence,
}

/// The single samples of an interval.
#[derive(Debug)]
pub(super) struct SingleSamples {
    limit: usize,
    known: Vec<Known>,
    /// By key, samples whose stack is still on its way.
    early: HashMap<u64, Vec<Occurrence>>,
    /// Samples of the next interval, with their keys, while the present one ends.
    next: Vec<(u64, Occurrence)>,
    /// All of them.
    held: usize,
    /// The number of the next interval, while the present one ends.
    seam: Option<u32>,
    lost: u64,
}

impl SingleSamples {
    pub(super) fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            known: Vec::new(),
            early: HashMap::new(),
            next: Vec::new(),
            held: 0,
            seam: None,
            lost: 0,
        }
    }

    /// The present interval ends, and the next one has this number.
    pub(super) fn set_seam(&mut self, next: u32) {
        self.seam = Some(next);
    }

    pub(super) fn count_lost(&mut self, more: u64) {
        self.lost = self.lost.saturating_add(more);
    }

    /// Adds a sample. `key`: that of its hash, if it is known.
    pub(super) fn add(&mut self, hash: u64, key: Option<Key>, occurrence: Occurrence) {
        if !self.has_room() {
            return;
        }
        // The numbers wrap around.
        let is_of_next = |seam: u32| occurrence.interval.wrapping_sub(seam) < u32::MAX / 2;
        if self.seam.is_some_and(is_of_next) {
            self.next.push((hash, occurrence));
        } else if let Some(Key { event, stack, .. }) = key {
            self.known.push(Known { event, stack, occurrence });
        } else {
            self.early.entry(hash).or_default().push(occurrence);
        }
    }

    /// Adds a sample that no key stands for.
    pub(super) fn add_walked(&mut self, event: EventId, stack: TaskStackId, occurrence: Occurrence) {
        if self.has_room() {
            self.known.push(Known { event, stack, occurrence });
        }
    }

    fn has_room(&mut self) -> bool {
        let has_room = self.held < self.limit;
        if has_room {
            self.held += 1
        } else {
            self.lost += 1
        }
        has_room
    }

    /// A key became known.
    pub(super) fn enter(&mut self, hash: u64, key: Key) {
        let Key { event, stack, .. } = key;
        let early = self.early.remove(&hash).unwrap_or_default();
        self.known.extend(early.into_iter().map(|occurrence| Known { event, stack, occurrence }));
    }

    /// The samples of the interval that ends. `start_ns`: its begin, of the monotonic clock. `stack_of`: the stack of a key, if it is known.
    pub(super) fn take(&mut self, start_ns: u64, stack_of: impl Fn(u64) -> Option<TaskStackId>) -> Singles {
        let known = std::mem::take(&mut self.known);
        self.held -= known.len();
        let mut samples: Vec<Single> =
            known.into_iter().map(|known| known.single(start_ns, &stack_of)).collect();
        samples.sort_by_key(|single| (single.at_ns, single.cpu));
        Singles { samples, lost: std::mem::take(&mut self.lost) }
    }

    /// The next interval has begun: its samples so far, with their keys.
    pub(super) fn take_next(&mut self) -> Vec<(u64, Occurrence)> {
        self.seam = None;
        self.held -= self.next.len();
        std::mem::take(&mut self.next)
    }

    /// Nothing more arrives: samples without a stack are lost.
    pub(super) fn settle(&mut self) {
        let early = std::mem::take(&mut self.early).into_values().map(|early| early.len()).sum::<usize>();
        let next = self.take_next().len();
        self.held -= early;
        self.count_lost((early + next) as u64);
    }
}

impl Known {
    fn single(self, start_ns: u64, stack_of: impl Fn(u64) -> Option<TaskStackId>) -> Single {
        let Occurrence { time_ns, cpu, tid, values, waker, .. } = self.occurrence;
        let waker = waker.and_then(stack_of);
        let at_ns = time_ns.wrapping_sub(start_ns) as i64;
        Single { at_ns, cpu, tid, event: self.event, stack: self.stack, values, waker }
    }
}

/// Cuts the values of each sample to the schema of its event.
pub(super) fn fit_values(recording: &mut Recording) {
    let Recording { events, singles, .. } = recording;
    for single in singles.iter_mut().flat_map(|singles| &mut singles.samples) {
        single.values.truncate(events.get(single.event.0 as usize).map_or(0, |event| event.values.len()));
    }
}
