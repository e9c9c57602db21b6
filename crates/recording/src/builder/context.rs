//! What a recording has besides stacks and counts, and what the next interval keeps of the last one.

use crate::accounting::Accounting;
use crate::event::Event;
use crate::kernel_image::KernelImage;
use crate::model::Span;
use crate::module::{CodeMapping, Module, ModuleId};
use crate::origin::Origin;
use crate::settings::Settings;
use crate::task::ExecInstanceId;

/// What a recording has besides stacks and counts.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// What was asked for.
    pub settings: Settings,
    /// When.
    pub span: Span,
    /// Its begin, ns of the monotonic clock: the times of single samples are told from there.
    pub start_ns: u64,
    /// Of which machine and target.
    pub origin: Origin,
    /// The kernel that ran.
    pub kernel: KernelImage,
    /// The executable of the first target, as module and loaded range (whose `module` is not looked at).
    pub main: Option<(Module, CodeMapping)>,
    /// The events, in the order of their ids.
    pub events: Vec<Event>,
    /// What was seen, lost and skipped.
    pub accounting: Accounting,
}

/// The numbers that items of an ended interval have in the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renumbering {
    /// Old and new numbers of the modules that are still in use.
    pub modules: Vec<(ModuleId, ModuleId)>,
    /// Old and new numbers of the programs that are still in use.
    pub exec_instances: Vec<(ExecInstanceId, ExecInstanceId)>,
}
