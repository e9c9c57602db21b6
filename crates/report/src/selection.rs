//! The counts of a recording, each with the stack, task and values that it refers to.

use recording::{Count, EventId, MissingStack, Recording, Role, Stack, State, Task, TaskId, TaskStackId};

/// The event of samples: the clock, or the one that was sampled instead.
pub(crate) const SAMPLED: EventId = EventId(0);
/// The event of off-CPU intervals and of time on CPUs.
pub(crate) const SCHEDULER: EventId = EventId(1);

/// Positions in the schemas of both events: the clock has the first alone.
const COUNT: usize = 0;
const TIME: usize = 1;
const RUNNABLE: usize = 2;
/// Position in the schema of a sampled event that has a value.
const VALUE: usize = 1;

/// A stack of a task in a state.
#[derive(Clone, Copy)]
pub(crate) struct StackRef<'a> {
    pub(crate) task_id: TaskId,
    pub(crate) task: &'a Task,
    pub(crate) stack: &'a Stack,
    pub(crate) state: State,
}

/// A count with what it refers to.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) stack_id: TaskStackId,
    pub(crate) at: StackRef<'a>,
    /// The stack that ended the intervals.
    pub(crate) waker: Option<StackRef<'a>>,
    /// Samples or intervals.
    pub(crate) count: u64,
    /// Time of the intervals, or on CPUs.
    pub(crate) time_ns: u64,
    /// Of that time, the part in which the thread could have run.
    pub(crate) runnable_ns: u64,
    /// The sum of the values of the samples, if their event has one.
    pub(crate) value: u64,
    /// What one sample stands for, in the unit of its event.
    pub(crate) period: u64,
}

impl Entry<'_> {
    /// Whether the agent's own work is counted: that of a command's process before it executes the command.
    pub(crate) fn is_gate(&self) -> bool {
        self.at.stack.missing == Some(MissingStack::Gate)
    }
}

/// All counts in their order, those of the agent's own work too. Counts that refer to nothing are left out.
pub(crate) fn all(recording: &Recording) -> impl Iterator<Item = Entry<'_>> {
    recording.counts.iter().filter_map(|count| entry(recording, count))
}

/// The counts that profiles may show, in their order.
pub(crate) fn shown(recording: &Recording) -> impl Iterator<Item = Entry<'_>> {
    all(recording).filter(|entry| !entry.is_gate())
}

/// What one sample stands for, in the unit of its event.
pub(crate) fn period(recording: &Recording) -> u64 {
    let period = recording.event(SAMPLED).and_then(|event| event.period);
    period.unwrap_or_else(|| recording.settings.period_ns())
}

fn entry<'a>(recording: &'a Recording, count: &Count) -> Option<Entry<'a>> {
    let period = recording.event(count.event).and_then(|event| event.period);
    Some(Entry {
        stack_id: count.stack,
        at: stack_ref(recording, count.stack)?,
        waker: count.linked(Role::Waker).and_then(|waker| stack_ref(recording, waker)),
        count: count.value(COUNT),
        time_ns: count.value(TIME),
        runnable_ns: count.value(RUNNABLE),
        value: count.value(VALUE),
        period: period.unwrap_or_else(|| recording.settings.period_ns()),
    })
}

fn stack_ref(recording: &Recording, id: TaskStackId) -> Option<StackRef<'_>> {
    let of_task = recording.task_stack(id)?;
    Some(StackRef {
        task_id: of_task.task,
        task: recording.task(of_task.task)?,
        stack: recording.stack(of_task.stack)?,
        state: of_task.state,
    })
}
