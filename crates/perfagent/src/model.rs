//! The data behind recordings and profiles, as plain types.
//!
//! [`Recording::model`](crate::Recording::model) gives a [`SymbolizedRecording`]: stacks, counts, processes and losses with their names.
//! [`Recording::profile`](crate::Recording::profile) gives a [`Profile`]: what one mode shows.
//!
//! ```
//! use perfagent::model::Frame;
//!
//! let recording = perfagent::Recording::default();
//! let model = recording.model();
//! let in_kernel = model.recording.frames.iter().filter(|frame| matches!(frame, Frame::Kernel { .. })).count();
//! assert_eq!(in_kernel, 0);
//! ```

pub use profile::{
    Avma, BuildId, FileOffset, Function, FunctionId, Label, LabelValue, Line, Location, LocationId, Mapping,
    MappingId, Profile, Sample, Svma, ValueType,
};
pub use recording::{
    Accounting, CodeMapping, CodeMappingId, CodeObject, CodeObjectId, Cost, Count, Counters, Event, EventId,
    ExecInstance, ExecInstanceId, Fetches, FileIdentity, Fold, Frame, FrameId, FrozenLedger, KernelImage,
    KernelModule, KernelNaming, LabelSetId, Link, MissingStack, Module, ModuleId, ModuleKind, NameLine,
    NameOutcome, Names, Recording, Role, Settings, Span, Stack, StackId, State, SymbolizedRecording,
    TargetKind, Task, TaskId, TaskStack, TaskStackId, ThreadId, Unit, ValueSpec, WalkEnd,
};
