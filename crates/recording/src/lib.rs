//! The model of a finished capture, or of one interval of a capture that goes on.
//!
//! A [`Recording`] owns all its data. It needs neither the machine nor the process that it comes from: it can be symbolized, reported,
//! and turned into any output later and elsewhere. [`Builder`] makes one from stacks and sums as they arrive;
//! [`mod@file`] writes and reads recordings, [`kernel_comments`] the kernel in comments of a profile.
//!
//! Guaranteed: ids are indices into the tables of the recording that they belong to. Memory is bounded: each table has a limit, and
//! each count that exceeds a limit is told in [`Accounting`]. The crate is pure: it knows no Linux, no BPF, and no symbolizer.
//!
//! Not here: how stacks are captured (`kernel`, `perfagent`), names of code (`symbolization`), what an output shows (`report`).

#![forbid(unsafe_code)]

mod accounting;
mod builder;
mod count;
mod counters;
mod event;
mod event_accounting;
mod fetches;
pub mod file;
mod frame;
mod heap_counts;
pub mod kernel_comments;
mod kernel_image;
mod lengths;
mod mode;
mod model;
mod module;
mod names;
mod not_run;
mod off_cpu_state;
mod origin;
mod python_walks;
mod settings;
mod single;
mod stack;
mod state;
mod task;
mod trampoline_counts;
mod values;
mod walk_end;

pub use accounting::{Accounting, Cost};
pub use builder::{Attached, Builder, Context, Key, Limits, LockKey, Occurrence, Renumbering};
pub use count::{Count, KernelLock, Link, LockKind, Object, Role, TaskStack, TaskStackId};
pub use counters::Counters;
pub use event::{Event, EventId, Fold, Unit, ValueSpec};
pub use event_accounting::EventAccounting;
pub use fetches::Fetches;
pub use frame::{CodeObject, CodeObjectId, Frame, FrameId};
pub use heap_counts::HeapCounts;
pub use kernel_image::{KernelImage, KernelModule};
pub use lengths::length_bounds;
pub use mode::Mode;
pub use model::{FrozenLedger, Recording, Span, SymbolizedRecording};
pub use module::{CodeMapping, CodeMappingId, FileIdentity, Module, ModuleId, ModuleKind};
pub use names::{KernelNaming, NameLine, NameOutcome, Names};
pub use not_run::NotRun;
pub use off_cpu_state::OffCpuState;
pub use origin::Origin;
pub use python_walks::{PythonCounter, PythonWalks};
pub use settings::{Settings, TargetKind};
pub use single::{Single, Singles};
pub use stack::{MissingStack, Stack, StackId};
pub use state::State;
pub use task::{ExecInstance, ExecInstanceId, LabelSetId, Task, TaskId, ThreadId};
pub use trampoline_counts::TrampolineCounts;
pub use values::{StackSums, VALUE_SLOTS, Values};
pub use walk_end::WalkEnd;
