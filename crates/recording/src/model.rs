//! The recording itself.

use profile::Label;
use serde::{Deserialize, Serialize};

use crate::accounting::Accounting;
use crate::count::{Count, TaskStack, TaskStackId};
use crate::event::{Event, EventId};
use crate::frame::{CodeObject, CodeObjectId, Frame, FrameId};
use crate::kernel_image::KernelImage;
use crate::mode::Mode;
use crate::module::{CodeMapping, CodeMappingId, Module, ModuleId};
use crate::names::Names;
use crate::origin::Origin;
use crate::settings::Settings;
use crate::single::Singles;
use crate::stack::{Stack, StackId};
use crate::task::{ExecInstance, ExecInstanceId, LabelSetId, Task, TaskId};

/// The time that a recording is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Its begin, ns since the epoch.
    pub start_ns: i64,
    /// Its length.
    pub duration_ns: u64,
}

/// A capture, or one interval of it, as data. Ids are indices into the vectors of the same recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// What was asked for.
    pub settings: Settings,
    /// When.
    pub span: Span,
    /// Of which machine and target.
    pub origin: Origin,
    /// The kernel that ran.
    pub kernel: KernelImage,
    /// The executable of the first target.
    pub main: Option<CodeMappingId>,
    /// Files with code.
    pub modules: Vec<Module>,
    /// Their loaded ranges.
    pub mappings: Vec<CodeMapping>,
    /// Programs that made code at run time.
    pub exec_instances: Vec<ExecInstance>,
    /// Functions of interpreted languages.
    pub code_objects: Vec<CodeObject>,
    /// Places in code.
    pub frames: Vec<Frame>,
    /// Distinct stacks.
    pub stacks: Vec<Stack>,
    /// Sets of labels.
    pub label_sets: Vec<Vec<Label>>,
    /// Processes and threads.
    pub tasks: Vec<Task>,
    /// Stacks of tasks.
    pub task_stacks: Vec<TaskStack>,
    /// What the counts count.
    pub events: Vec<Event>,
    /// The counts, in the order of [`Count::stack`] and [`Count::links`].
    pub counts: Vec<Count>,
    /// Single samples, if they were asked for. The counts have them too.
    pub singles: Option<Singles>,
    /// What was seen, lost and skipped.
    pub accounting: Accounting,
}

impl Recording {
    /// The module with this id.
    #[must_use]
    pub fn module(&self, id: ModuleId) -> Option<&Module> {
        self.modules.get(id.0 as usize)
    }

    /// The mapping with this id, and its module.
    #[must_use]
    pub fn mapping(&self, id: CodeMappingId) -> Option<(&CodeMapping, &Module)> {
        let mapping = self.mappings.get(id.0 as usize)?;
        Some((mapping, self.module(mapping.module)?))
    }

    /// The program with this id.
    #[must_use]
    pub fn exec_instance(&self, id: ExecInstanceId) -> Option<&ExecInstance> {
        self.exec_instances.get(id.0 as usize)
    }

    /// The code object with this id.
    #[must_use]
    pub fn code_object(&self, id: CodeObjectId) -> Option<&CodeObject> {
        self.code_objects.get(id.0 as usize)
    }

    /// The frame with this id.
    #[must_use]
    pub fn frame(&self, id: FrameId) -> Option<&Frame> {
        self.frames.get(id.0 as usize)
    }

    /// The stack with this id.
    #[must_use]
    pub fn stack(&self, id: StackId) -> Option<&Stack> {
        self.stacks.get(id.0 as usize)
    }

    /// The labels with this id; none if there is no such set.
    #[must_use]
    pub fn labels(&self, id: LabelSetId) -> &[Label] {
        self.label_sets.get(id.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// The task with this id.
    #[must_use]
    pub fn task(&self, id: TaskId) -> Option<&Task> {
        self.tasks.get(id.0 as usize)
    }

    /// The stack of a task with this id.
    #[must_use]
    pub fn task_stack(&self, id: TaskStackId) -> Option<&TaskStack> {
        self.task_stacks.get(id.0 as usize)
    }

    /// The event with this id.
    #[must_use]
    pub fn event(&self, id: EventId) -> Option<&Event> {
        self.events.get(id.0 as usize)
    }
}

/// The ledger of one profile as it was when the capture ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrozenLedger {
    /// Which profile.
    pub mode: Mode,
    /// Keys and values in the ledger's order.
    pub entries: Vec<(String, String)>,
}

/// A recording with names for its frames.
#[derive(Clone, Debug, Default)]
pub struct SymbolizedRecording {
    /// The recording.
    pub recording: Recording,
    /// The names.
    pub names: Names,
    /// The ledgers of the live run, if this was written by one.
    pub ledgers: Vec<FrozenLedger>,
}
