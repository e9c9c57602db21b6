//! Keys: the numbers under which the programs in the kernel sum up, and the sums of each stack.
//!
//! There are as many sums as there are distinct stacks, however many keys they came under: an interval whose stack could not be walked
//! in the kernel has a key of its own, and so has every process. A key is dropped when its sums have been taken and cannot come again.
//! Sums that exceed a limit are counted by state.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use crate::count::TaskStackId;
use crate::event::EventId;
use crate::state::State;

/// A key of a waker or a pair may come again, with a message of its own, this many times after its sums were taken.
const KEPT_DRAINS: u32 = 2;

/// What the programs summed up under one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackSums {
    /// Samples or intervals.
    pub count: u64,
    /// Sum of their values.
    pub value: u64,
    /// Off-CPU: of the value, the time in which the thread could have run.
    pub waited: u64,
}

impl StackSums {
    /// Adds other sums.
    pub fn add(&mut self, more: Self) {
        self.count = self.count.saturating_add(more.count);
        self.value = self.value.saturating_add(more.value);
        self.waited = self.waited.saturating_add(more.waited);
    }

    /// Whether these are the sums of an occurrence. A value without a count tells that an interval was too short to be recorded; sums
    /// of neither only tell that the stack was sent.
    fn tells_an_end(self) -> bool {
        self.count > 0 || self.value > 0
    }
}

/// What the sums under a key belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The event.
    pub event: EventId,
    /// The stack.
    pub stack: TaskStackId,
    /// The process, and the time at which its program began: they tell when the key cannot come again.
    pub pid: u32,
    /// See `pid`; ns of the monotonic clock.
    pub exec_id: u64,
    /// It is the key of one interval alone.
    pub once: bool,
}

#[derive(Debug)]
struct Known {
    key: Key,
    state: State,
    /// Number of drains when a message last told of it.
    heard: u32,
}

/// One side of a pair: its stack, or the key of a stack that is still on its way.
#[derive(Clone, Copy, Debug)]
enum Side {
    Stack(TaskStackId),
    Key(u64),
}

/// Intervals in one place that one waker ended.
#[derive(Debug)]
struct Pair {
    event: EventId,
    state: State,
    blocked: Side,
    /// The key of the blocked stack, if it is that of one interval alone.
    once: Option<u64>,
    waker: Side,
    /// Sums that arrived while a side was not known.
    sums: StackSums,
    heard: u32,
}

/// Where sums belong: event, stack, and the stack of the waker.
pub(super) type SumsKey = (EventId, TaskStackId, Option<TaskStackId>);

/// All keys and sums of an interval.
#[derive(Debug)]
pub(super) struct Keys {
    limit: usize,
    known: HashMap<u64, Known>,
    pairs: HashMap<u64, Pair>,
    sums: HashMap<SumsKey, StackSums>,
    /// How many of them have the stack of a waker. These and the others have the limit of their own, so that wakers cannot crowd out
    /// the blocked stacks.
    sums_with_waker: usize,
    /// Sums whose stack is still on its way: in the ring, or waiting for unwind tables.
    early: HashMap<u64, (State, StackSums)>,
    /// Time of intervals that go on, whose stack is still on its way.
    early_open: HashMap<u64, StackSums>,
    /// How often sums were taken.
    drains: u32,
    pub(super) not_kept: [u64; State::ALL.len()],
    pub(super) wakers_not_kept: u64,
}

impl Keys {
    pub(super) fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            known: HashMap::new(),
            pairs: HashMap::new(),
            sums: HashMap::new(),
            sums_with_waker: 0,
            early: HashMap::new(),
            early_open: HashMap::new(),
            drains: 0,
            not_kept: [0; State::ALL.len()],
            wakers_not_kept: 0,
        }
    }

    /// Enters a key with its stack.
    pub(super) fn enter(&mut self, hash: u64, key: Key, state: State) {
        let early = self.early.remove(&hash).map(|(_, sums)| sums);
        if let Some(sums) = early {
            self.add_to(key.event, key.stack, None, state, sums);
        }
        if let Some(time) = self.early_open.remove(&hash) {
            self.add_time(key, time);
        }
        let is_over = key.once && early.is_some_and(StackSums::tells_an_end);
        if !is_over && (self.known.len() < self.limit || self.known.contains_key(&hash)) {
            self.known.insert(hash, Known { key, state, heard: self.drains });
        }
    }

    /// Enters a pair: sums under `hash` are of intervals in the stack under `blocked` that the stack under `waker` ended.
    pub(super) fn enter_pair(&mut self, hash: u64, event: EventId, state: State, blocked: u64, waker: u64) {
        if self.pairs.len() >= self.limit && !self.pairs.contains_key(&hash) {
            return;
        }
        let early = self.early.remove(&hash).map(|(_, sums)| sums).unwrap_or_default();
        let new = || Pair {
            event,
            state,
            blocked: Side::Key(blocked),
            once: None,
            waker: Side::Key(waker),
            sums: StackSums::default(),
            heard: 0,
        };
        let mut pair = self.pairs.remove(&hash).unwrap_or_else(new);
        pair.heard = self.drains;
        pair.sums.add(early);
        if self.resolve(&mut pair) {
            self.pairs.insert(hash, pair);
        }
    }

    /// The key of a hash, if its stack is known.
    pub(super) fn key(&self, hash: u64) -> Option<Key> {
        self.known.get(&hash).map(|known| known.key)
    }

    /// Adds what was summed up under a key.
    pub(super) fn add(&mut self, hash: u64, state: State, sums: StackSums) {
        if let Some(known) = self.known.get(&hash) {
            let (key, state) = (known.key, known.state);
            self.add_to(key.event, key.stack, None, state, sums);
            if key.once && sums.tells_an_end() {
                self.known.remove(&hash);
            }
        } else if let Some(mut pair) = self.pairs.remove(&hash) {
            pair.sums.add(sums);
            pair.heard = self.drains;
            if self.resolve(&mut pair) {
                self.pairs.insert(hash, pair);
            }
        } else if sums.tells_an_end() {
            if self.early.len() < self.limit || self.early.contains_key(&hash) {
                self.early.entry(hash).or_insert((state, StackSums::default())).1.add(sums);
            } else {
                self.not_kept[state as usize] += sums.count;
            }
        }
    }

    /// Adds the sums of ended intervals to those of a stack, and of its waker. Where a limit is reached, they are counted as not kept.
    fn add_to(
        &mut self,
        event: EventId,
        stack: TaskStackId,
        waker: Option<TaskStackId>,
        state: State,
        sums: StackSums,
    ) {
        if sums.count == 0 {
            return;
        }
        if let Some(total) = self.sums_of((event, stack, waker)) {
            total.add(sums);
        } else if waker.is_some() {
            self.add_without_waker(event, stack, state, sums);
        } else {
            self.not_kept[state as usize] += sums.count;
        }
    }

    /// Adds the sums of intervals whose waker is not known, or exceeds a limit.
    fn add_without_waker(&mut self, event: EventId, stack: TaskStackId, state: State, sums: StackSums) {
        if let Some(total) = self.sums_of((event, stack, None)) {
            total.add(sums);
            self.wakers_not_kept += sums.count;
        } else {
            self.not_kept[state as usize] += sums.count;
        }
    }

    /// The sums of a stack, entered if they are new. `None`: the limit is reached.
    fn sums_of(&mut self, key: SumsKey) -> Option<&mut StackSums> {
        let with_waker = key.2.is_some();
        let held = if with_waker { self.sums_with_waker } else { self.sums.len() - self.sums_with_waker };
        match self.sums.entry(key) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(free) if held < self.limit => {
                self.sums_with_waker += usize::from(with_waker);
                Some(free.insert(StackSums::default()))
            }
            Entry::Vacant(_) => None,
        }
    }

    /// Adds sums that no key stands for.
    pub(super) fn add_single(&mut self, event: EventId, stack: TaskStackId, state: State, sums: StackSums) {
        self.add_to(event, stack, None, state, sums);
    }

    /// Adds the time so far of an interval that goes on, without a count; at once if its stack is known, else when it is.
    pub(super) fn add_open(&mut self, hash: u64, time: StackSums) {
        if time.value == 0 {
            return;
        }
        let time = StackSums { count: 0, ..time };
        if let Some(key) = self.known.get(&hash).map(|known| known.key) {
            self.add_time(key, time);
        } else if self.early_open.len() < self.limit {
            self.early_open.entry(hash).or_default().add(time);
        }
    }

    /// Where the limit is reached, the interval is counted as not kept at its end.
    fn add_time(&mut self, key: Key, time: StackSums) {
        if let Some(total) = self.sums_of((key.event, key.stack, None)) {
            total.add(time);
        }
    }

    /// Ended intervals and samples of which a stack is still on its way, of the states in question.
    pub(super) fn early_count(&self, of: impl Fn(State) -> bool) -> u64 {
        let early = self.early.values().map(|(state, sums)| (*state, sums.count));
        let pairs = self.pairs.values().map(|pair| (pair.state, pair.sums.count));
        early.chain(pairs).filter(|(state, _)| of(*state)).map(|(_, count)| count).sum()
    }

    /// Time of which a stack is still on its way: of ended intervals, on CPUs, and of intervals that go on.
    pub(super) fn early_time_ns(&self) -> u64 {
        let early = self.early.values().map(|(state, sums)| (*state, *sums));
        let pairs = self.pairs.values().map(|pair| (pair.state, pair.sums));
        let ended = early.chain(pairs).filter(|(state, sums)| state.is_time() && sums.count > 0);
        let ended: u64 = ended.map(|(_, sums)| sums.value).sum();
        ended.saturating_add(self.early_open.values().map(|sums| sums.value).sum())
    }

    /// Finds the stacks of a pair, and hands its sums over to them. Whether the pair may still be needed.
    fn resolve(&mut self, pair: &mut Pair) -> bool {
        if let Side::Key(hash) = pair.blocked
            && let Some(known) = self.known.get(&hash)
        {
            pair.blocked = Side::Stack(known.key.stack);
            pair.once = known.key.once.then_some(hash);
        }
        if let Side::Key(hash) = pair.waker
            && let Some(known) = self.known.get(&hash)
        {
            pair.waker = Side::Stack(known.key.stack);
        }
        let (Side::Stack(blocked), Side::Stack(waker)) = (pair.blocked, pair.waker) else { return true };
        let sums = std::mem::take(&mut pair.sums);
        self.add_to(pair.event, blocked, Some(waker), pair.state, sums);
        if let Some(hash) = pair.once.filter(|_| sums.count > 0) {
            self.known.remove(&hash);
            return false;
        }
        true
    }

    /// All sums have just been taken: drops keys that cannot come again. `may_come` is asked about a process and the begin of its
    /// program.
    pub(super) fn release(&mut self, mut may_come: impl FnMut(u32, u64) -> bool) {
        self.drains += 1;
        self.release_pairs();
        let drains = self.drains;
        self.known.retain(|_, known| {
            if known.state.is_waker() {
                drains - known.heard < KEPT_DRAINS
            } else {
                may_come(known.key.pid, known.key.exec_id)
            }
        });
        self.shrink();
    }

    /// Hands the sums of pairs over whose stacks are known by now, and drops pairs that cannot come again.
    pub(super) fn release_pairs(&mut self) {
        for (hash, mut pair) in std::mem::take(&mut self.pairs) {
            if self.resolve(&mut pair) && (pair.sums.count > 0 || self.drains - pair.heard < KEPT_DRAINS) {
                self.pairs.insert(hash, pair);
            }
        }
    }

    fn shrink(&mut self) {
        self.known.shrink_to(2 * self.known.len());
        self.pairs.shrink_to(2 * self.pairs.len());
        self.early.shrink_to(2 * self.early.len());
        self.early_open.shrink_to(2 * self.early_open.len());
    }

    /// From here on messages belong to the next interval, or to both.
    pub(super) fn begin_cut(&mut self) {
        self.drains += 1;
    }

    /// The sums of the interval that ends. Keeps keys that the next interval needs: those in `open`, those heard since
    /// [`Self::begin_cut`], those of recent wakers. `renumber` gives each kept stack its number in the next interval's tables.
    pub(super) fn cut(
        &mut self,
        open: &HashSet<u64>,
        mut renumber: impl FnMut(TaskStackId) -> Option<TaskStackId>,
    ) -> HashMap<SumsKey, StackSums> {
        self.release_pairs();
        let drains = self.drains;
        self.known.retain(|hash, known| {
            let age = drains - known.heard;
            let keep = age == 0 || open.contains(hash) || known.state.is_waker() && age < KEPT_DRAINS;
            let next = if keep { renumber(known.key.stack) } else { None };
            next.inspect(|next| known.key.stack = *next).is_some()
        });
        self.pairs.retain(|_, pair| {
            [&mut pair.blocked, &mut pair.waker].into_iter().all(|side| match side {
                Side::Key(_) => true,
                Side::Stack(stack) => renumber(*stack).inspect(|next| *stack = *next).is_some(),
            })
        });
        self.shrink();
        self.not_kept = [0; State::ALL.len()];
        self.wakers_not_kept = 0;
        self.sums_with_waker = 0;
        std::mem::take(&mut self.sums)
    }

    /// Nothing more arrives: sums without a stack are lost.
    pub(super) fn settle(&mut self) {
        self.early_open.clear();
        for (_, (state, sums)) in std::mem::take(&mut self.early) {
            self.not_kept[state as usize] += sums.count;
        }
        for (_, mut pair) in std::mem::take(&mut self.pairs) {
            self.resolve(&mut pair);
            match pair.blocked {
                Side::Stack(blocked) => self.add_without_waker(pair.event, blocked, pair.state, pair.sums),
                Side::Key(_) => self.not_kept[pair.state as usize] += pair.sums.count,
            }
        }
    }

    /// All sums so far.
    pub(super) fn sums(&self) -> &HashMap<SumsKey, StackSums> {
        &self.sums
    }

    /// How many keys, pairs and early sums are held.
    pub(super) fn held(&self) -> usize {
        self.known.len() + self.pairs.len() + self.early.len() + self.early_open.len()
    }
}

#[cfg(test)]
mod tests;
