//! The tables of a recording while it is built: each item once, up to a limit.

use profile::Label;

use crate::count::{TaskStack, TaskStackId};
use crate::frame::{CodeObject, CodeObjectId, Frame, FrameId};
use crate::module::{CodeMapping, CodeMappingId, Module, ModuleId};
use crate::stack::{Stack, StackId};
use crate::task::{ExecInstance, ExecInstanceId, LabelSetId, Task, TaskId};
use profile::Interner;

/// All tables.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) modules: Interner<Module>,
    pub(super) mappings: Interner<CodeMapping>,
    pub(super) exec_instances: Interner<ExecInstance>,
    pub(super) code_objects: Interner<CodeObject>,
    pub(super) frames: Interner<Frame>,
    pub(super) stacks: Interner<Stack>,
    pub(super) label_sets: Interner<Vec<Label>>,
    pub(super) tasks: Interner<Task>,
    pub(super) task_stacks: Interner<TaskStack>,
}

impl Tables {
    pub(super) fn with_limit(limit: u32) -> Self {
        Self {
            modules: Interner::with_limit(limit),
            mappings: Interner::with_limit(limit),
            exec_instances: Interner::with_limit(limit),
            code_objects: Interner::with_limit(limit),
            frames: Interner::with_limit(limit),
            stacks: Interner::with_limit(limit),
            label_sets: Interner::with_limit(limit),
            tasks: Interner::with_limit(limit),
            task_stacks: Interner::with_limit(limit),
        }
    }

    /// Copies a stack of a task with all that it refers to from the tables of an ended interval. `None` if a table is full, which it
    /// cannot be as long as less is copied than there was.
    pub(super) fn copy_task_stack(&mut self, from: &Self, id: TaskStackId) -> Option<TaskStackId> {
        let TaskStack { task, stack, state } = *from.task_stacks.get(id.0)?;
        let task = self.copy_task(from, task)?;
        let stack = self.copy_stack(from, stack)?;
        self.task_stacks.number(TaskStack { task, stack, state }).map(TaskStackId)
    }

    fn copy_task(&mut self, from: &Self, id: TaskId) -> Option<TaskId> {
        let mut task = from.tasks.get(id.0)?.clone();
        let labels = from.label_sets.get(task.labels.0)?.clone();
        task.labels = LabelSetId(self.label_sets.number(labels)?);
        self.tasks.number(task).map(TaskId)
    }

    fn copy_stack(&mut self, from: &Self, id: StackId) -> Option<StackId> {
        let mut stack = from.stacks.get(id.0)?.clone();
        for frame in &mut stack.frames {
            *frame = self.copy_frame(from, *frame)?;
        }
        self.stacks.number(stack).map(StackId)
    }

    fn copy_frame(&mut self, from: &Self, id: FrameId) -> Option<FrameId> {
        let mut frame = *from.frames.get(id.0)?;
        match &mut frame {
            Frame::Native { mapping, .. } => *mapping = self.copy_mapping(from, *mapping)?,
            Frame::Jit { program, .. } => {
                let instance = from.exec_instances.get(program.0)?.clone();
                *program = ExecInstanceId(self.exec_instances.number(instance)?);
            }
            Frame::Interpreted { code, .. } => {
                let object = from.code_objects.get(code.0)?.clone();
                *code = CodeObjectId(self.code_objects.number(object)?);
            }
            Frame::Kernel { .. } | Frame::Unknown { .. } => {}
        }
        self.frames.number(frame).map(FrameId)
    }

    fn copy_mapping(&mut self, from: &Self, id: CodeMappingId) -> Option<CodeMappingId> {
        let mut mapping = *from.mappings.get(id.0)?;
        let module = from.modules.get(mapping.module.0)?.clone();
        mapping.module = ModuleId(self.modules.number(module)?);
        self.mappings.number(mapping).map(CodeMappingId)
    }
}
