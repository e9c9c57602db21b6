//! Builds recordings from stacks and sums as they arrive, and cuts them into intervals.

mod context;
mod finish;
mod keys;
mod linked;
mod singles;
mod table;
mod tables;

use std::collections::{HashMap, HashSet};

use profile::Label;

use crate::accounting::Accounting;
use crate::count::{TaskStack, TaskStackId};
use crate::event::{Event, EventId};
use crate::frame::{CodeObject, CodeObjectId, Frame, FrameId};
use crate::model::Recording;
use crate::module::{CodeMapping, CodeMappingId, Module, ModuleId};
use crate::stack::{Stack, StackId};
use crate::state::State;
use crate::task::{ExecInstance, ExecInstanceId, LabelSetId, Task, TaskId, ThreadId};
use crate::values::Values;

use self::keys::Keys;
use self::singles::SingleSamples;
use self::tables::Tables;

pub use self::context::{Context, Renumbering};
pub use self::keys::Key;
pub use self::linked::{Attached, LockKey};
pub use self::singles::Occurrence;

/// How many items of a kind are kept at most, and how much memory they take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Memory of stacks, frames, tasks and so on, all together.
    pub bytes: usize,
    /// Distinct stacks, frames, tasks and so on, of each.
    pub items: u32,
    /// Keys whose stack is known, keys whose stack is still on its way, sums of stacks, and sums of stacks with their wakers, of each.
    pub keys: usize,
    /// Single samples.
    pub singles: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self::of_bytes(Self::BYTES)
    }
}

impl Limits {
    /// Memory of stacks, frames, tasks and so on by default.
    pub const BYTES: usize = 256 << 20;
    /// Numbers of items where memory is no reason for fewer.
    const MOST: usize = 1_000_000;
    /// A key with its sums, or a single sample, takes about as many bytes.
    const OF_A_KEY: usize = 256;

    /// The limits for so much memory of stacks, frames, tasks and so on. Keys and single samples are as many as fit into as much again,
    /// of each.
    #[must_use]
    pub fn of_bytes(bytes: usize) -> Self {
        let keys = (bytes / Self::OF_A_KEY).min(Self::MOST);
        Self { bytes, items: Self::MOST as u32, keys, singles: keys }
    }
}

/// Stacks, keys and sums of the interval that goes on.
///
/// A *key* is the number under which the programs in the kernel sum up. [`Builder::enter`] tells to which stack a key belongs,
/// [`Builder::add`] adds what was summed up under it; either may come first. [`Builder::cut`] gives the interval so far as a
/// [`Recording`] and begins the next one with the keys that are still in use.
#[derive(Debug)]
pub struct Builder {
    limits: Limits,
    tables: Tables,
    keys: Keys,
    /// Single samples, if they are recorded.
    singles: Option<SingleSamples>,
    /// A stack found no place in an interval that has ended.
    was_short: bool,
}

impl Builder {
    /// An empty builder.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let (tables, keys) = (Tables::within(limits.items, limits.bytes), Keys::with_limit(limits.keys));
        Self { limits, tables, keys, singles: None, was_short: false }
    }

    /// Values of these events, in the order of their ids, fold as their schemas say. Values of other events are summed up.
    #[must_use]
    pub fn with_events(mut self, events: &[Event]) -> Self {
        self.keys.set_events(events);
        self
    }

    /// Records single samples too.
    #[must_use]
    pub fn with_single_samples(mut self) -> Self {
        self.singles = Some(SingleSamples::with_limit(self.limits.singles));
        self
    }

    /// The number of a module; `None` if there are too many, here and below.
    pub fn module(&mut self, module: Module) -> Option<ModuleId> {
        self.tables.modules.number(module, &mut self.tables.room).map(ModuleId)
    }

    /// The number of a loaded range of a module.
    pub fn mapping(&mut self, mapping: CodeMapping) -> Option<CodeMappingId> {
        self.tables.mappings.number(mapping, &mut self.tables.room).map(CodeMappingId)
    }

    /// The number of a program that makes code at run time.
    pub fn exec_instance(&mut self, instance: ExecInstance) -> Option<ExecInstanceId> {
        self.tables.exec_instances.number(instance, &mut self.tables.room).map(ExecInstanceId)
    }

    /// The number of a function of an interpreted language.
    pub fn code_object(&mut self, code: CodeObject) -> Option<CodeObjectId> {
        self.tables.code_objects.number(code, &mut self.tables.room).map(CodeObjectId)
    }

    /// The number of a place in code.
    pub fn frame(&mut self, frame: Frame) -> Option<FrameId> {
        self.tables.frames.number(frame, &mut self.tables.room).map(FrameId)
    }

    /// The number of a task. `labels`: those of its process without the process number, `comm` first.
    pub fn task(&mut self, pid: Option<u32>, labels: Vec<Label>, thread: Option<ThreadId>) -> Option<TaskId> {
        let labels = LabelSetId(self.tables.label_sets.number(labels, &mut self.tables.room)?);
        self.tables.tasks.number(Task { pid, labels, thread }, &mut self.tables.room).map(TaskId)
    }

    /// The number of a stack of a task.
    pub fn task_stack(&mut self, task: TaskId, stack: Stack, state: State) -> Option<TaskStackId> {
        let stack = StackId(self.tables.stacks.number(stack, &mut self.tables.room)?);
        self.tables
            .task_stacks
            .number(TaskStack { task, stack, state }, &mut self.tables.room)
            .map(TaskStackId)
    }

    /// The frames so far, by number.
    pub fn frames(&self) -> impl ExactSizeIterator<Item = &Frame> {
        self.tables.frames.iter()
    }

    /// The module with this number.
    #[must_use]
    pub fn module_of(&self, id: ModuleId) -> Option<&Module> {
        self.tables.modules.get(id.0)
    }

    /// The program with this number.
    #[must_use]
    pub fn exec_instance_of(&self, id: ExecInstanceId) -> Option<&ExecInstance> {
        self.tables.exec_instances.get(id.0)
    }

    /// The function of an interpreted language with this number.
    #[must_use]
    pub fn code_object_of(&self, id: CodeObjectId) -> Option<&CodeObject> {
        self.tables.code_objects.get(id.0)
    }

    /// The loaded range with this number.
    #[must_use]
    pub fn mapping_of(&self, id: CodeMappingId) -> Option<&CodeMapping> {
        self.tables.mappings.get(id.0)
    }

    /// Enters the key of a stack: what was or will be summed up under `hash` belongs to it.
    pub fn enter(&mut self, hash: u64, key: Key) {
        if let Some(state) = self.tables.task_stacks.get(key.stack.0).map(|stack| stack.state) {
            self.keys.enter(hash, key, state);
            if let Some(singles) = &mut self.singles {
                singles.enter(hash, key);
            }
        }
    }

    /// Enters the key of a stack with further stacks, an object or a time bin: what is summed up under `hash` belongs to all of them
    /// together. The further stacks are known by their keys, before or after this.
    pub fn enter_attached(&mut self, hash: u64, key: Key, attached: &Attached) {
        if let Some(state) = self.tables.task_stacks.get(key.stack.0).map(|stack| stack.state) {
            self.keys.enter_attached(hash, key, state, attached);
        }
    }

    /// Enters a pair: what is summed up under `hash` are intervals in the stack under `blocked` that the stack under `waker` ended.
    pub fn enter_pair(&mut self, hash: u64, event: EventId, state: State, blocked: u64, waker: u64) {
        self.keys.enter_pair(hash, event, state, blocked, waker);
    }

    /// Enters the key of waits for a lock: what is summed up under `hash` has these stacks and this lock in common.
    pub fn enter_lock(&mut self, hash: u64, key: LockKey) {
        self.keys.enter_lock(hash, key);
    }

    /// Adds the values of an event that came together under a key.
    pub fn add(&mut self, hash: u64, event: EventId, state: State, values: impl Into<Values>) {
        self.keys.add(hash, event, state, values.into());
    }

    /// Adds a single occurrence that no key stands for.
    pub fn add_single(&mut self, event: EventId, stack: TaskStackId, values: impl Into<Values>) {
        if let Some(state) = self.tables.task_stacks.get(stack.0).map(|stack| stack.state) {
            self.keys.add_single(event, stack, state, values.into());
        }
    }

    /// Adds a single sample of the stack under a key. Its sum comes by [`Self::add`].
    pub fn add_sample(&mut self, hash: u64, sample: Occurrence) {
        if let Some(singles) = &mut self.singles {
            singles.add(hash, self.keys.key(hash), sample);
        }
    }

    /// Adds a single sample that no key stands for. Its sum comes by [`Self::add_single`].
    pub fn add_walked_sample(&mut self, event: EventId, stack: TaskStackId, sample: Occurrence) {
        if let Some(singles) = &mut self.singles {
            singles.add_walked(event, stack, sample);
        }
    }

    /// Counts single samples that did not arrive.
    pub fn count_lost_samples(&mut self, lost: u64) {
        if let Some(singles) = &mut self.singles {
            singles.count_lost(lost);
        }
    }

    /// Adds the time so far of an interval that goes on. Its count comes with its end.
    pub fn add_open(&mut self, hash: u64, time: impl Into<Values>) {
        self.keys.add_open(hash, time.into());
    }

    /// Adds the sums of pairs to their stacks as far as these are known by now.
    pub fn resolve_pairs(&mut self) {
        self.keys.resolve_linked();
    }

    /// Ended intervals and samples of which a stack is still on its way, of the events and states that `of` chooses. A cut carries them into
    /// the next interval.
    pub fn early_count(&self, of: impl Fn(EventId, State) -> bool) -> u64 {
        self.keys.early_count(of)
    }

    /// Waits for locks of which a stack is still on its way. A cut carries them into the next interval.
    #[must_use]
    pub fn early_locks(&self) -> u64 {
        self.keys.early_locks()
    }

    /// Time of which a stack is still on its way. A cut carries it into the next interval.
    #[must_use]
    pub fn early_time_ns(&self) -> u64 {
        self.keys.early_time_ns()
    }

    /// Counts an occurrence that exceeded a limit.
    pub fn count_not_kept(&mut self, event: EventId, state: State) {
        self.keys.count_not_kept(event, state, 1);
    }

    /// Tells in the figures of a capture what exceeded a limit so far.
    pub fn account(&self, accounting: &mut Accounting) {
        accounting.not_kept = self.keys.not_kept;
        accounting.wakers_not_kept = self.keys.wakers_not_kept;
        accounting.locks_not_kept = self.keys.locks_not_kept;
        for (of_event, losses) in accounting.further.iter_mut().zip(self.keys.further) {
            of_event.not_kept = losses.not_kept;
        }
    }

    /// The same at the end of an interval, with what has no stack.
    fn account_all(&self, accounting: &mut Accounting) {
        self.account(accounting);
        accounting.without_stack = self.keys.without_stack;
        for (of_event, losses) in accounting.further.iter_mut().zip(self.keys.further) {
            of_event.without_stack = losses.without_stack;
        }
    }

    /// Keys, pairs and early sums that are held.
    #[must_use]
    pub fn keys_held(&self) -> usize {
        self.keys.held()
    }

    /// All sums have just been taken: drops keys that cannot come again. `may_come` is asked about a process and the begin of its
    /// program.
    pub fn release(&mut self, may_come: impl FnMut(u32, u64) -> bool) {
        self.keys.release(may_come);
    }

    /// From here on messages may belong to the next interval. To be called before the sums of the ending interval are taken.
    pub fn begin_cut(&mut self) {
        self.keys.begin_cut();
    }

    /// The interval ends. Single samples of the interval with this number, and of later ones, belong to the next recording. To be called
    /// between [`Self::begin_cut`] and [`Self::cut`].
    pub fn set_seam(&mut self, next_interval: u32) {
        if let Some(singles) = &mut self.singles {
            singles.set_seam(next_interval);
        }
    }

    /// Ends the interval: its recording, and the numbers of what the next interval goes on with. `open`: the keys of intervals that go
    /// on.
    pub fn cut(&mut self, mut context: Context, open: &HashSet<u64>) -> (Recording, Renumbering) {
        let old = std::mem::replace(&mut self.tables, Tables::within(self.limits.items, self.limits.bytes));
        self.was_short |= old.room.was_short;
        let stack_of = |hash| self.keys.key(hash).map(|key| key.stack);
        let singles = self.singles.as_mut().map(|singles| singles.take(context.start_ns, stack_of));
        self.account_all(&mut context.accounting);
        let next = &mut self.tables;
        let mut numbers = HashMap::new();
        let sums = self
            .keys
            .cut(open, |stack| *numbers.entry(stack).or_insert_with(|| next.copy_task_stack(&old, stack)));
        let renumbering = finish::renumbering(&old, &self.tables);
        // The keys have the numbers of the next interval now.
        for (hash, sample) in self.singles.as_mut().map(SingleSamples::take_next).unwrap_or_default() {
            self.add_sample(hash, sample);
        }
        (finish::recording(old, &sums, singles, context), renumbering)
    }

    /// Ends the last interval: nothing more arrives.
    #[must_use]
    pub fn finish(mut self, mut context: Context) -> Recording {
        self.keys.settle(self.was_short || self.tables.room.was_short);
        self.account_all(&mut context.accounting);
        let singles = self.singles.map(|mut singles| {
            singles.settle();
            singles.take(context.start_ns, |hash| self.keys.key(hash).map(|key| key.stack))
        });
        finish::recording(self.tables, self.keys.sums(), singles, context)
    }
}

#[cfg(test)]
mod tests;
