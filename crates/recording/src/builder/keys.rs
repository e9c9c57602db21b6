//! Keys: the numbers under which the programs in the kernel sum up, and the sums of each stack.
//!
//! There are as many sums as there are distinct stacks, however many keys they came under: an interval whose stack could not be walked
//! in the kernel has a key of its own, and so has every process. A key is dropped when its sums have been taken and cannot come again.
//! Sums that exceed a limit are counted by state.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use crate::builder::linked::{Attached, KEPT_DRAINS, Linked, LockKey, Place, Side};
use crate::count::{Role, TaskStackId};
use crate::event::{Event, EventId};
use crate::state::State;
use crate::values::{Folds, Values};

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

/// Whether these are the values of an occurrence. A second value without a count tells that an interval was too short to be recorded;
/// neither only tells that the stack was sent.
fn tells_an_end(Values([count, value, ..]): Values) -> bool {
    count > 0 || value > 0
}

/// All keys and sums of an interval.
#[derive(Debug)]
pub(super) struct Keys {
    limit: usize,
    /// By number of the event.
    folds: Vec<Folds>,
    known: HashMap<u64, Known>,
    linked: HashMap<u64, Linked>,
    sums: HashMap<Place, Values>,
    /// How many of them are attached to more than a stack. These and the others have the limit of their own, so that wakers cannot
    /// crowd out the blocked stacks.
    sums_attached: usize,
    /// Sums whose stack is still on its way: in the ring, or waiting for unwind tables.
    early: HashMap<u64, Early>,
    /// Stacks of one interval alone of which sums have come, with the number of drains then: an interval that is a wait for a lock
    /// has two sums, and one of them may still be on its way. None are kept without locks.
    over: HashMap<u64, (TaskStackId, u32)>,
    /// Waits for locks are recorded.
    has_locks: bool,
    /// Time of intervals that go on, whose stack is still on its way.
    early_open: HashMap<u64, Values>,
    /// How often sums were taken.
    drains: u32,
    pub(super) not_kept: [u64; State::ALL.len()],
    /// Occurrences whose stack never came, by number of [`State`].
    pub(super) without_stack: [u64; State::ALL.len()],
    /// The same two of events that are sampled beside the first one, by number.
    pub(super) further: [FurtherLosses; EventId::MAX_FURTHER],
    pub(super) wakers_not_kept: u64,
    /// Waits for locks that exceeded a limit, or whose stack never came.
    pub(super) locks_not_kept: u64,
}

/// Samples of a further event that are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FurtherLosses {
    pub(super) not_kept: u64,
    pub(super) without_stack: u64,
}

/// Sums whose stack is still on its way.
#[derive(Clone, Copy, Debug)]
struct Early {
    event: EventId,
    state: State,
    sums: Values,
}

impl Keys {
    pub(super) fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            folds: Vec::new(),
            known: HashMap::new(),
            linked: HashMap::new(),
            sums: HashMap::new(),
            sums_attached: 0,
            early: HashMap::new(),
            over: HashMap::new(),
            has_locks: false,
            early_open: HashMap::new(),
            drains: 0,
            not_kept: [0; State::ALL.len()],
            without_stack: [0; State::ALL.len()],
            further: Default::default(),
            wakers_not_kept: 0,
            locks_not_kept: 0,
        }
    }

    /// Values fold as the schemas of these events say.
    pub(super) fn set_events(&mut self, events: &[Event]) {
        self.folds = events.iter().map(|event| Folds::of(Some(event))).collect();
    }

    fn folds(&self, event: EventId) -> Folds {
        self.folds.get(event.0 as usize).copied().unwrap_or_else(|| Folds::of(None))
    }

    /// Enters a key with its stack.
    pub(super) fn enter(&mut self, hash: u64, key: Key, state: State) {
        let early = self.early.remove(&hash).map(|early| early.sums);
        if let Some(sums) = early {
            self.add_to(Place::of(key.event, key.stack), state, sums);
        }
        if let Some(time) = self.early_open.remove(&hash) {
            self.add_time(Place::of(key.event, key.stack), time);
        }
        let is_over = key.once && early.is_some_and(tells_an_end);
        if is_over {
            self.end_once(hash, key.stack);
        }
        if !is_over && (self.known.len() < self.limit || self.known.contains_key(&hash)) {
            self.known.insert(hash, Known { key, state, heard: self.drains });
        }
    }

    /// Enters a pair: sums under `hash` are of intervals in the stack under `blocked` that the stack under `waker` ended.
    pub(super) fn enter_pair(&mut self, hash: u64, event: EventId, state: State, blocked: u64, waker: u64) {
        let attached = Attached { links: vec![(Role::Waker, waker)], ..Attached::default() };
        self.enter_linked(hash, || Linked::new(event, state, Side::Key(blocked), &attached));
    }

    /// Enters a key with its stack, further stacks, object and time bin.
    pub(super) fn enter_attached(&mut self, hash: u64, key: Key, state: State, attached: &Attached) {
        self.enter_linked(hash, || Linked {
            once: key.once.then_some(hash),
            program: Some((key.pid, key.exec_id)),
            ..Linked::new(key.event, state, Side::Stack(key.stack), attached)
        });
    }

    /// Enters the key of waits for a lock. The stacks are known by their keys, before or after this.
    pub(super) fn enter_lock(&mut self, hash: u64, key: LockKey) {
        self.has_locks = true;
        let LockKey { event, state, stack, pid, exec_id, attached, place } = key;
        self.enter_linked(hash, || {
            let mut linked = Linked::new(event, state, Side::Key(stack), &attached);
            linked.links.extend(place.map(|place| (Role::Place, Side::Stack(place))));
            Linked { program: Some((pid, exec_id)), ..linked }
        });
    }

    /// The only sums of a key of one interval have come. Its stack is still needed where the interval is a wait for a lock too.
    fn end_once(&mut self, hash: u64, stack: TaskStackId) {
        self.known.remove(&hash);
        if self.has_locks && self.over.len() < self.limit {
            self.over.insert(hash, (stack, self.drains));
        }
    }

    fn enter_linked(&mut self, hash: u64, new: impl FnOnce() -> Linked) {
        if self.linked.len() >= self.limit && !self.linked.contains_key(&hash) {
            return;
        }
        let early = self.early.remove(&hash).map(|early| early.sums).unwrap_or_default();
        let mut linked = self.linked.remove(&hash).unwrap_or_else(new);
        linked.heard = self.drains;
        linked.sums.join(early, self.folds(linked.event));
        self.settle_linked(hash, linked);
    }

    /// The key of a hash, if its stack is known.
    pub(super) fn key(&self, hash: u64) -> Option<Key> {
        self.known.get(&hash).map(|known| known.key)
    }

    /// Adds what was summed up under a key.
    pub(super) fn add(&mut self, hash: u64, event: EventId, state: State, sums: Values) {
        if let Some(known) = self.known.get(&hash) {
            let (key, state) = (known.key, known.state);
            self.add_to(Place::of(key.event, key.stack), state, sums);
            if key.once && tells_an_end(sums) {
                self.end_once(hash, key.stack);
            }
        } else if let Some((stack, _)) = self.over.get(&hash).copied() {
            self.add_to(Place::of(event, stack), state, sums);
        } else if let Some(mut linked) = self.linked.remove(&hash) {
            linked.sums.join(sums, self.folds(linked.event));
            linked.heard = self.drains;
            self.settle_linked(hash, linked);
        } else if tells_an_end(sums) {
            if self.early.len() < self.limit || self.early.contains_key(&hash) {
                let folds = self.folds(event);
                let new = Early { event, state, sums: Values::default() };
                self.early.entry(hash).or_insert(new).sums.join(sums, folds);
            } else {
                self.count_not_kept(event, state, sums.count());
            }
        }
    }

    /// Adds the sums of ended intervals to those of a place. Where a limit is reached, they are counted as not kept.
    fn add_to(&mut self, place: Place, state: State, sums: Values) {
        if sums.count() == 0 {
            return;
        }
        let (folds, bare) = (self.folds(place.event), Place::of(place.event, place.stack));
        let is_bare = place.is_bare();
        if let Some(total) = self.sums_of(place) {
            total.join(sums, folds);
        } else if is_bare {
            self.count_not_kept(bare.event, state, sums.count());
        } else {
            self.add_without_waker(bare, state, sums);
        }
    }

    /// Adds the sums of intervals whose waker is not known, or exceeds a limit.
    fn add_without_waker(&mut self, place: Place, state: State, sums: Values) {
        let (folds, bare_event) = (self.folds(place.event), place.event);
        if let Some(total) = self.sums_of(place) {
            total.join(sums, folds);
            self.wakers_not_kept += sums.count();
        } else {
            self.count_not_kept(bare_event, state, sums.count());
        }
    }

    /// Counts occurrences that exceed a limit.
    pub(super) fn count_not_kept(&mut self, event: EventId, state: State, count: u64) {
        match event {
            EventId::LOCKS => self.locks_not_kept += count,
            // The same waits once more.
            EventId::LOCK_LENGTHS => {}
            _ => match self.further_losses(event) {
                Some(further) => further.not_kept += count,
                None => self.not_kept[state as usize] += count,
            },
        }
    }

    /// What is missing of a further event.
    fn further_losses(&mut self, event: EventId) -> Option<&mut FurtherLosses> {
        self.further.get_mut(event.further_number()?)
    }

    /// The sums of a place, entered if they are new. `None`: the limit is reached.
    fn sums_of(&mut self, place: Place) -> Option<&mut Values> {
        let attached = !place.is_bare();
        let held = if attached { self.sums_attached } else { self.sums.len() - self.sums_attached };
        match self.sums.entry(place) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(free) if held < self.limit => {
                self.sums_attached += usize::from(attached);
                Some(free.insert(Values::default()))
            }
            Entry::Vacant(_) => None,
        }
    }

    /// Adds sums that no key stands for.
    pub(super) fn add_single(&mut self, event: EventId, stack: TaskStackId, state: State, sums: Values) {
        self.add_to(Place::of(event, stack), state, sums);
    }

    /// Adds the time so far of an interval that goes on, without a count; at once if its stack is known, else when it is.
    pub(super) fn add_open(&mut self, hash: u64, time: Values) {
        let Values([_, value, ..]) = time;
        if value == 0 {
            return;
        }
        if let Some(key) = self.known.get(&hash).map(|known| known.key) {
            self.add_time(Place::of(key.event, key.stack), time);
        } else if let Some(place) = self.linked.get(&hash).and_then(Linked::place) {
            self.add_time(place, time);
        } else if self.early_open.len() < self.limit {
            self.early_open.entry(hash).or_default().join_open(time, Folds::of(None));
        }
    }

    /// Where the limit is reached, the interval is counted as not kept at its end.
    fn add_time(&mut self, place: Place, time: Values) {
        let folds = self.folds(place.event);
        if let Some(total) = self.sums_of(place) {
            total.join_open(time, folds);
        }
    }

    /// Ended intervals and samples of which a stack is still on its way, of the events and states in question.
    pub(super) fn early_count(&self, of: impl Fn(EventId, State) -> bool) -> u64 {
        let all = self.all_early().filter(|early| !early.event.is_of_locks() && of(early.event, early.state));
        all.map(|early| early.sums.count()).sum()
    }

    /// Waits for locks of which a stack is still on its way.
    pub(super) fn early_locks(&self) -> u64 {
        let all = self.all_early().filter(|early| early.event == EventId::LOCKS);
        all.map(|early| early.sums.count()).sum()
    }

    /// All sums of which a stack is still on its way.
    fn all_early(&self) -> impl Iterator<Item = Early> {
        let linked = self.linked.values().map(|of| Early { event: of.event, state: of.state, sums: of.sums });
        self.early.values().copied().chain(linked)
    }

    /// Time of which a stack is still on its way: of ended intervals, on CPUs, and of intervals that go on.
    pub(super) fn early_time_ns(&self) -> u64 {
        let time = |Values([_, time, ..]): Values| time;
        let is_time =
            |early: &Early| !early.event.is_of_locks() && early.state.is_time() && early.sums.count() > 0;
        let ended: u64 = self.all_early().filter(is_time).map(|early| time(early.sums)).sum();
        ended.saturating_add(self.early_open.values().map(|sums| time(*sums)).sum())
    }

    /// Finds the stacks of a linked key, and hands its sums over to them. Whether the key may still be needed.
    fn resolve(&mut self, linked: &mut Linked) -> bool {
        if let Side::Key(hash) = linked.stack
            && let Some((stack, once)) = self.stack_of(hash)
        {
            linked.stack = Side::Stack(stack);
            linked.once = once.then_some(hash);
        }
        for side in linked.links.iter_mut().map(|(_, side)| side) {
            if let Side::Key(hash) = *side
                && let Some((stack, _)) = self.stack_of(hash)
            {
                *side = Side::Stack(stack);
            }
        }
        let Some(place) = linked.place() else { return true };
        let sums = std::mem::take(&mut linked.sums);
        self.add_to(place, linked.state, sums);
        if let Some(hash) = linked.once.filter(|_| sums.count() > 0) {
            if let Some(key) = self.key(hash) {
                self.end_once(hash, key.stack);
            }
            return false;
        }
        true
    }

    /// The stack of a key, and whether it is the key of one interval alone.
    fn stack_of(&self, hash: u64) -> Option<(TaskStackId, bool)> {
        let known = self.known.get(&hash).map(|known| (known.key.stack, known.key.once));
        known.or_else(|| self.over.get(&hash).map(|(stack, _)| (*stack, true)))
    }

    /// Resolves a linked key, and keeps it if it may still be needed.
    fn settle_linked(&mut self, hash: u64, mut linked: Linked) {
        let keep = self.resolve(&mut linked);
        if let Some(place) = linked.place()
            && let Some(time) = self.early_open.remove(&hash)
        {
            self.add_time(place, time);
        }
        if keep {
            self.linked.insert(hash, linked);
        }
    }

    /// All sums have just been taken: drops keys that cannot come again. `may_come` is asked about a process and the begin of its
    /// program.
    pub(super) fn release(&mut self, mut may_come: impl FnMut(u32, u64) -> bool) {
        self.drains += 1;
        self.resolve_linked();
        let drains = self.drains;
        self.over.retain(|_, (_, since)| drains - *since < KEPT_DRAINS);
        self.linked.retain(|_, linked| linked.may_come(drains, &mut may_come));
        self.known.retain(|_, known| {
            if known.state.is_waker() {
                drains - known.heard < KEPT_DRAINS
            } else {
                may_come(known.key.pid, known.key.exec_id)
            }
        });
        self.shrink();
    }

    /// Hands over the sums of linked keys whose stacks are known by now.
    pub(super) fn resolve_linked(&mut self) {
        for (hash, linked) in std::mem::take(&mut self.linked) {
            self.settle_linked(hash, linked);
        }
    }

    fn shrink(&mut self) {
        self.known.shrink_to(2 * self.known.len());
        self.linked.shrink_to(2 * self.linked.len());
        self.over.shrink_to(2 * self.over.len());
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
    ) -> HashMap<Place, Values> {
        self.resolve_linked();
        let drains = self.drains;
        self.known.retain(|hash, known| {
            let age = drains - known.heard;
            let keep = age == 0 || open.contains(hash) || known.state.is_waker() && age < KEPT_DRAINS;
            let next = if keep { renumber(known.key.stack) } else { None };
            next.inspect(|next| known.key.stack = *next).is_some()
        });
        self.linked.retain(|hash, linked| {
            let in_use = drains == linked.heard || open.contains(hash);
            let keep = linked.may_come(drains, |_, _| in_use);
            keep && linked.sides().all(|side| match side {
                Side::Key(_) => true,
                Side::Stack(stack) => renumber(*stack).inspect(|next| *stack = *next).is_some(),
            })
        });
        self.over.retain(|_, (stack, since)| {
            let next = if drains - *since < KEPT_DRAINS { renumber(*stack) } else { None };
            next.inspect(|next| *stack = *next).is_some()
        });
        self.shrink();
        (self.not_kept, self.without_stack, self.further) = Default::default();
        (self.wakers_not_kept, self.locks_not_kept) = (0, 0);
        self.sums_attached = 0;
        std::mem::take(&mut self.sums)
    }

    /// Nothing more arrives: sums without a stack are lost. `was_short`: stacks came that found no place, which are those.
    pub(super) fn settle(&mut self, was_short: bool) {
        self.early_open.clear();
        let mut lost = [0; State::ALL.len()];
        let mut lose = |keys: &mut Self, event: EventId, state: State, count| {
            if event.is_of_locks() {
                keys.count_not_kept(event, state, count);
            } else if let Some(further) = keys.further_losses(event) {
                let lost_for = if was_short { &mut further.not_kept } else { &mut further.without_stack };
                *lost_for += count;
            } else {
                lost[state as usize] += count;
            }
        };
        for (_, Early { event, state, sums }) in std::mem::take(&mut self.early) {
            lose(self, event, state, sums.count());
        }
        for (_, mut linked) in std::mem::take(&mut self.linked) {
            self.resolve(&mut linked);
            let sums = std::mem::take(&mut linked.sums);
            linked.links.retain(|(_, side)| matches!(side, Side::Stack(_)));
            match linked.place() {
                Some(place) => self.add_without_waker(place, linked.state, sums),
                None => lose(self, linked.event, linked.state, sums.count()),
            }
        }
        let lost_for = if was_short { &mut self.not_kept } else { &mut self.without_stack };
        lost_for.iter_mut().zip(lost).for_each(|(all, lost)| *all += lost);
    }

    /// All sums so far.
    pub(super) fn sums(&self) -> &HashMap<Place, Values> {
        &self.sums
    }

    /// How many keys, pairs and early sums are held.
    pub(super) fn held(&self) -> usize {
        self.known.len() + self.linked.len() + self.early.len() + self.early_open.len()
    }
}

#[cfg(test)]
mod tests;
