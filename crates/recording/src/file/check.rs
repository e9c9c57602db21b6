//! Checks each item against the tables that it refers to. The writer checks too: what it writes can be read.

use crate::count::{Count, TaskStack, TaskStackId};
use crate::event::EventId;
use crate::frame::{Frame, FrameId};
use crate::model::Recording;
use crate::module::{CodeMapping, CodeMappingId};
use crate::single::Single;
use crate::stack::Stack;
use crate::task::Task;

/// What is wrong with an item.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error("{kind} {id} does not exist")]
    Dangling { kind: &'static str, id: u32 },
    #[error("the table has too many items")]
    TooMany,
    #[error("{0}")]
    Invalid(&'static str),
}

/// Checks an index into a table of this many items.
pub(super) fn id(kind: &'static str, id: u32, items: usize) -> Result<(), Problem> {
    if (id as usize) < items { Ok(()) } else { Err(Problem::Dangling { kind, id }) }
}

pub(super) fn mapping(recording: &Recording, mapping: &CodeMapping) -> Result<(), Problem> {
    id("module", mapping.module.0, recording.modules.len())
}

pub(super) fn main(recording: &Recording, main: Option<CodeMappingId>) -> Result<(), Problem> {
    main.map_or(Ok(()), |main| id("mapping", main.0, recording.mappings.len()))
}

pub(super) fn frame(recording: &Recording, frame: &Frame) -> Result<(), Problem> {
    match frame {
        Frame::Native { mapping, .. } => id("mapping", mapping.0, recording.mappings.len()),
        Frame::Jit { program, .. } => id("exec instance", program.0, recording.exec_instances.len()),
        Frame::Interpreted { code, .. } => id("code object", code.0, recording.code_objects.len()),
        Frame::Kernel { .. } | Frame::Unknown { .. } => Ok(()),
    }
}

pub(super) fn stack(recording: &Recording, stack: &Stack) -> Result<(), Problem> {
    if stack.kernel_frames as usize > stack.frames.len() {
        return Err(Problem::Invalid("a stack has more kernel frames than frames"));
    }
    stack.frames.iter().try_for_each(|FrameId(frame)| id("frame", *frame, recording.frames.len()))
}

pub(super) fn task(recording: &Recording, task: &Task) -> Result<(), Problem> {
    id("label set", task.labels.0, recording.label_sets.len())
}

pub(super) fn task_stack(recording: &Recording, stack: &TaskStack) -> Result<(), Problem> {
    id("task", stack.task.0, recording.tasks.len())?;
    id("stack", stack.stack.0, recording.stacks.len())
}

pub(super) fn count(recording: &Recording, count: &Count) -> Result<(), Problem> {
    let stacks = recording.task_stacks.len();
    id("task stack", count.stack.0, stacks)?;
    count
        .links
        .iter()
        .map(|link| link.stack)
        .try_for_each(|TaskStackId(stack)| id("task stack", stack, stacks))?;
    values(recording, count.event, &count.values, "a count has more values than its event")
}

pub(super) fn single(recording: &Recording, single: &Single) -> Result<(), Problem> {
    id("task stack", single.stack.0, recording.task_stacks.len())?;
    values(recording, single.event, &single.values, "a sample has more values than its event")
}

/// The number of a single sample, and the stack that ended it.
pub(super) fn single_waker(
    recording: &Recording,
    (number, waker): (u32, TaskStackId),
) -> Result<(), Problem> {
    let samples = recording.singles.as_ref().map_or(0, |singles| singles.samples.len());
    id("single sample", number, samples)?;
    id("task stack", waker.0, recording.task_stacks.len())
}

fn values(
    recording: &Recording,
    event: EventId,
    values: &[u64],
    too_many: &'static str,
) -> Result<(), Problem> {
    id("event", event.0, recording.events.len())?;
    let schema = recording.event(event).map_or(0, |event| event.values.len());
    if values.len() > schema { Err(Problem::Invalid(too_many)) } else { Ok(()) }
}
