//! The tables of a recording while it is built: each item once, within limits of their number and of their memory.

use profile::Label;

use super::table::{Room, Table};

use crate::count::{TaskStack, TaskStackId};
use crate::frame::{CodeObject, CodeObjectId, Frame, FrameId};
use crate::module::{CodeMapping, CodeMappingId, Module, ModuleId};
use crate::stack::{Stack, StackId};
use crate::task::{ExecInstance, ExecInstanceId, LabelSetId, Task, TaskId};

/// All tables.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) room: Room,
    pub(super) modules: Table<Module>,
    pub(super) mappings: Table<CodeMapping>,
    pub(super) exec_instances: Table<ExecInstance>,
    pub(super) code_objects: Table<CodeObject>,
    pub(super) frames: Table<Frame>,
    pub(super) stacks: Table<Stack>,
    pub(super) label_sets: Table<Vec<Label>>,
    pub(super) tasks: Table<Task>,
    pub(super) task_stacks: Table<TaskStack>,
}

impl Tables {
    pub(super) fn within(limit: u32, bytes: usize) -> Self {
        Self {
            room: Room::of_bytes(bytes),
            modules: Table::with_limit(limit),
            mappings: Table::with_limit(limit),
            exec_instances: Table::with_limit(limit),
            code_objects: Table::with_limit(limit),
            frames: Table::with_limit(limit),
            stacks: Table::with_limit(limit),
            label_sets: Table::with_limit(limit),
            tasks: Table::with_limit(limit),
            task_stacks: Table::with_limit(limit),
        }
    }

    /// Copies a stack of a task with all that it refers to from the tables of an ended interval. `None` if there is no room, which there
    /// is as long as less is copied than there was.
    pub(super) fn copy_task_stack(&mut self, from: &Self, id: TaskStackId) -> Option<TaskStackId> {
        let TaskStack { task, stack, state } = *from.task_stacks.get(id.0)?;
        let task = self.copy_task(from, task)?;
        let stack = self.copy_stack(from, stack)?;
        self.task_stacks.number(TaskStack { task, stack, state }, &mut self.room).map(TaskStackId)
    }

    fn copy_task(&mut self, from: &Self, id: TaskId) -> Option<TaskId> {
        let mut task = from.tasks.get(id.0)?.clone();
        let labels = from.label_sets.get(task.labels.0)?.clone();
        task.labels = LabelSetId(self.label_sets.number(labels, &mut self.room)?);
        self.tasks.number(task, &mut self.room).map(TaskId)
    }

    fn copy_stack(&mut self, from: &Self, id: StackId) -> Option<StackId> {
        let mut stack = from.stacks.get(id.0)?.clone();
        for frame in &mut stack.frames {
            *frame = self.copy_frame(from, *frame)?;
        }
        self.stacks.number(stack, &mut self.room).map(StackId)
    }

    fn copy_frame(&mut self, from: &Self, id: FrameId) -> Option<FrameId> {
        let mut frame = *from.frames.get(id.0)?;
        match &mut frame {
            Frame::Native { mapping, .. } => *mapping = self.copy_mapping(from, *mapping)?,
            Frame::Jit { program, .. } => {
                let instance = from.exec_instances.get(program.0)?.clone();
                *program = ExecInstanceId(self.exec_instances.number(instance, &mut self.room)?);
            }
            Frame::Interpreted { code, .. } => {
                let object = from.code_objects.get(code.0)?.clone();
                *code = CodeObjectId(self.code_objects.number(object, &mut self.room)?);
            }
            Frame::Kernel { .. } | Frame::Unknown { .. } => {}
        }
        self.frames.number(frame, &mut self.room).map(FrameId)
    }

    fn copy_mapping(&mut self, from: &Self, id: CodeMappingId) -> Option<CodeMappingId> {
        let mut mapping = *from.mappings.get(id.0)?;
        let module = from.modules.get(mapping.module.0)?.clone();
        mapping.module = ModuleId(self.modules.number(module, &mut self.room)?);
        self.mappings.number(mapping, &mut self.room).map(CodeMappingId)
    }
}
