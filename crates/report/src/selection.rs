//! The counts of a recording, each with the stack, task and values that it refers to.

use recording::{
    Count, EventId, FrameId, MissingStack, Mode, Object, Recording, Role, Stack, State, Task, TaskId,
    TaskStackId,
};

/// The event of off-CPU intervals and of time on CPUs.
pub(crate) const SCHEDULER: EventId = EventId(1);

/// Positions in the schemas of both events: the clock has the first alone.
const COUNT: usize = 0;
pub(crate) const TIME: usize = 1;
const RUNNABLE: usize = 2;
/// Of waits for locks, at the position of the runnable time.
const LONGEST: usize = 2;
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
    pub(crate) event: EventId,
    pub(crate) stack_id: TaskStackId,
    pub(crate) at: StackRef<'a>,
    /// The stack that ended the intervals.
    pub(crate) waker: Option<StackRef<'a>>,
    /// Its number.
    pub(crate) waker_id: Option<TaskStackId>,
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

/// All counts in their order, those of the agent's own work too. Counts that refer to nothing are left out, and waits for locks: they are
/// intervals too.
pub(crate) fn all(recording: &Recording) -> impl Iterator<Item = Entry<'_>> {
    let counts = recording.counts.iter().filter(|count| !count.event.is_of_locks());
    counts.filter_map(|count| entry(recording, count))
}

/// Waits for a lock that have their stacks in common.
#[derive(Clone, Copy)]
pub(crate) struct LockWaits<'a> {
    /// The waits as an entry: their stack, number and time.
    pub(crate) entry: Entry<'a>,
    /// The lock. None: the recording could not keep apart so many.
    pub(crate) lock: Option<Object>,
    /// The variable that the lock is.
    pub(crate) place: Option<FrameId>,
    /// The stack of the thread that held it when the waits began.
    pub(crate) owner: Option<StackRef<'a>>,
    /// The stack that ended the waits.
    pub(crate) waker: Option<StackRef<'a>>,
    /// It did so by a call on the same lock.
    pub(crate) released: bool,
    /// The longest wait.
    pub(crate) longest_ns: u64,
}

/// All waits for locks, in their order.
pub(crate) fn lock_waits(recording: &Recording) -> impl Iterator<Item = LockWaits<'_>> {
    let counts = recording.counts.iter().filter(|count| count.event == EventId::LOCKS);
    let waits = counts.filter_map(|count| {
        let linked = |role| count.linked(role).and_then(|stack| stack_ref(recording, stack));
        Some(LockWaits {
            // Profiles of locks show the stacks of the waiters alone.
            entry: Entry { waker: None, waker_id: None, runnable_ns: 0, ..entry(recording, count)? },
            lock: count.object,
            place: linked(Role::Place).and_then(|place| place.stack.frames.first().copied()),
            owner: linked(Role::Owner),
            waker: count.waker().and_then(|stack| stack_ref(recording, stack)),
            released: count.linked(Role::Releaser).is_some(),
            longest_ns: count.value(LONGEST),
        })
    });
    waits.filter(|waits| !waits.entry.is_gate())
}

/// Waits for locks by their length: stack, lock, bucket of lengths and number.
pub(crate) fn lock_lengths(
    recording: &Recording,
) -> impl Iterator<Item = (TaskStackId, Option<Object>, u32, u64)> {
    let counts = recording.counts.iter().filter(|count| count.event == EventId::LOCK_LENGTHS);
    counts.filter_map(|count| Some((count.stack, count.object, count.time_bin?, count.value(COUNT))))
}

/// The counts that profiles may show, in their order.
pub(crate) fn shown(recording: &Recording) -> impl Iterator<Item = Entry<'_>> {
    all(recording).filter(|entry| !entry.is_gate())
}

/// The counts that the profile of a mode shows, in their order.
pub(crate) fn shown_in(recording: &Recording, mode: Mode) -> impl Iterator<Item = Entry<'_>> {
    shown(recording).filter(move |entry| recording.settings.shows(mode, entry.event, entry.at.state))
}

/// What one sample of an event stands for, in the unit of the event.
pub(crate) fn period(recording: &Recording, event: EventId) -> u64 {
    let period = recording.event(event).and_then(|event| event.period);
    period.unwrap_or_else(|| recording.settings.period_ns())
}

fn entry<'a>(recording: &'a Recording, count: &Count) -> Option<Entry<'a>> {
    Some(Entry {
        event: count.event,
        stack_id: count.stack,
        at: stack_ref(recording, count.stack)?,
        waker: count.waker().and_then(|waker| stack_ref(recording, waker)),
        waker_id: count.waker(),
        count: count.value(COUNT),
        time_ns: count.value(TIME),
        runnable_ns: count.value(RUNNABLE),
        value: count.value(VALUE),
        period: period(recording, count.event),
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
