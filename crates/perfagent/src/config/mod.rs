//! What to capture: the builder, its validation, and the effective configuration.
//!
//! Guaranteed: the setters of [`Builder`] and its textual options lead to one [`request::Request`], checked by one
//! ordered table ([`checks`]), so that a program and the command line are refused for the same reasons in the same
//! words. Validation looks at the system (paths, `PATH`, one sysctl, the online CPUs) and touches nothing.
//! Not here: whether the targets exist and the kernel can do it; that is asked at the start.

mod builder;
mod checks;
pub(crate) mod command;
mod duration;
mod facts;
mod labels;
mod options;
mod plan;
mod request;
mod size;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use builder::Builder;
pub use duration::{DurationError, parse_duration};
pub(crate) use labels::{Enricher, Enrichment, RESERVED_LABELS};
pub use labels::{Labels, Namespaces, ProcessInfo};

use events::counting::CounterSpec;
use metrics::endpoint::ListenAddress;

use crate::OffCpuState;
use crate::export::Exporters;
use crate::hooks::TableHooks;
use crate::output::{OutputKind, OutputTarget, TemporaryFiles};

/// Samples per second and CPU, unless said otherwise.
pub const DEFAULT_SAMPLE_RATE_HZ: u32 = 99;
/// Distinct stacks held in the kernel between two drains, unless said otherwise.
pub const DEFAULT_MAX_STACKS: u32 = 65_536;
/// Bytes of the ring that carries unseen stacks, unless said otherwise.
pub const DEFAULT_RING_BYTES: u32 = 4 << 20;

/// How user stacks are walked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unwind {
    /// Frame pointers only, no tables.
    Fp,
    /// Tables from unwind information, frame pointers where none covers an address; all tables of the targets are
    /// built before the first sample.
    Dwarf,
    /// The walker of `Dwarf`; with the whole system as target, tables are built in order of use. With processes as targets
    /// those that are not ready soon are not waited for: 5 s for an off-CPU profile, 100 ms for an on-CPU profile alone,
    /// whose stacks user space walks meanwhile.
    #[default]
    Auto,
}

impl Unwind {
    /// All modes with their names.
    pub(crate) const NAMES: [(&'static str, Self); 3] =
        [("fp", Self::Fp), ("dwarf", Self::Dwarf), ("auto", Self::Auto)];

    /// The name on the command line and in the ledger.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp => "fp",
            Self::Dwarf => "dwarf",
            Self::Auto => "auto",
        }
    }
}

/// How a report of metrics is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PmuFormat {
    /// For people.
    #[default]
    Text,
    /// For programs; the schema is named in it.
    Json,
}

/// What is profiled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Targets {
    /// These processes with all their threads and future descendants; in the order given, each once.
    Pids(Vec<u32>),
    /// Every process, and kernel threads.
    System,
    /// A command that is started by the agent, with its descendants; its program as given.
    Command(std::ffi::OsString),
}

/// The effective configuration of an agent: everything that was set, and the defaults for the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub(crate) targets: Targets,
    pub(crate) duration: Option<Duration>,
    pub(crate) cpu_profile: bool,
    pub(crate) off_cpu_profile: bool,
    pub(crate) off_cpu_states: Vec<OffCpuState>,
    pub(crate) min_block: Duration,
    pub(crate) wakers: bool,
    pub(crate) wall_profile: bool,
    pub(crate) pmu: bool,
    pub(crate) pmu_events: Vec<CounterSpec>,
    pub(crate) per_pid: bool,
    pub(crate) metrics_listen: Option<ListenAddress>,
    pub(crate) metrics_interval: Option<Duration>,
    pub(crate) sample_rate_hz: u32,
    pub(crate) unwind: Unwind,
    pub(crate) kernel_stacks: bool,
    pub(crate) per_thread: bool,
    pub(crate) cpus: Option<Vec<u32>>,
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) labels: Labels,
    pub(crate) max_stacks: u32,
    pub(crate) ring_bytes: u32,
    pub(crate) table_cache_dir: Option<PathBuf>,
    pub(crate) self_check: bool,
    pub(crate) rotate: Option<Duration>,
}

impl Config {
    /// The length of an interval, if the capture is cut and one set of outputs is written for each.
    #[must_use]
    pub fn rotate(&self) -> Option<Duration> {
        self.rotate
    }

    /// What is profiled.
    #[must_use]
    pub fn targets(&self) -> &Targets {
        &self.targets
    }

    /// The length that was asked for, if any. The agent runs until it is stopped; this is for the one who stops it.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        self.duration
    }

    /// Whether an on-CPU profile is taken.
    #[must_use]
    pub fn cpu_profile(&self) -> bool {
        self.cpu_profile
    }

    /// Whether an off-CPU profile is taken.
    #[must_use]
    pub fn off_cpu_profile(&self) -> bool {
        self.off_cpu_profile
    }

    /// The states whose time is in the off-CPU profile, in their order.
    #[must_use]
    pub fn off_cpu_states(&self) -> &[OffCpuState] {
        &self.off_cpu_states
    }

    /// Off-CPU intervals shorter than this are not recorded.
    #[must_use]
    pub fn min_block(&self) -> Duration {
        self.min_block
    }

    /// Whether who ended an off-CPU interval is recorded.
    #[must_use]
    pub fn wakers(&self) -> bool {
        self.wakers
    }

    /// Whether a wall-clock profile is made of the on-CPU and the off-CPU one.
    #[must_use]
    pub fn wall_profile(&self) -> bool {
        self.wall_profile
    }

    /// Whether figures of the scheduler and counters are taken.
    #[must_use]
    pub fn pmu(&self) -> bool {
        self.pmu
    }

    /// Names of the events that are counted.
    pub fn pmu_events(&self) -> impl Iterator<Item = &str> {
        self.pmu_events.iter().map(CounterSpec::name)
    }

    /// Whether each process has figures of its own.
    #[must_use]
    pub fn per_pid(&self) -> bool {
        self.per_pid
    }

    /// Where metrics can be fetched during the capture, as `HOST:PORT`.
    #[must_use]
    pub fn metrics_listen(&self) -> Option<String> {
        self.metrics_listen.as_ref().map(ToString::to_string)
    }

    /// On-CPU samples per second and CPU.
    #[must_use]
    pub fn sample_rate_hz(&self) -> u32 {
        self.sample_rate_hz
    }

    /// How user stacks are walked.
    #[must_use]
    pub fn unwind(&self) -> Unwind {
        self.unwind
    }

    /// Whether kernel frames are taken.
    #[must_use]
    pub fn kernel_stacks(&self) -> bool {
        self.kernel_stacks
    }

    /// Whether threads are kept apart.
    #[must_use]
    pub fn per_thread(&self) -> bool {
        self.per_thread
    }

    /// The CPUs that sampling is restricted to, in ascending order; none = all online ones.
    #[must_use]
    pub fn cpus(&self) -> Option<&[u32]> {
        self.cpus.as_deref()
    }

    /// Profile comments, in the order given.
    #[must_use]
    pub fn tags(&self) -> &[(String, String)] {
        &self.tags
    }

    /// Fixed sample labels.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Distinct stacks held in the kernel between two drains.
    #[must_use]
    pub fn max_stacks(&self) -> u32 {
        self.max_stacks
    }

    /// Bytes of the ring that carries unseen stacks.
    #[must_use]
    pub fn ring_bytes(&self) -> u32 {
        self.ring_bytes
    }

    /// Where unwind tables are kept, if that was said.
    #[must_use]
    pub fn table_cache_dir(&self) -> Option<&Path> {
        self.table_cache_dir.as_deref()
    }

    /// Whether each reuse of a remembered walk is walked again in full and compared.
    #[must_use]
    pub fn self_check(&self) -> bool {
        self.self_check
    }
}

/// Functions of the host program that the capture calls.
pub(crate) struct Callbacks {
    /// Where labels come from.
    pub(crate) enrichment: Enrichment,
    /// Who is told of finished unwind tables.
    pub(crate) table_hooks: TableHooks,
}

/// A validated capture: what an agent is made of.
pub(crate) struct Plan {
    /// The effective configuration.
    pub(crate) config: Config,
    /// Outputs in the order of [`OutputKind`].
    pub(crate) outputs: Vec<(OutputKind, OutputTarget)>,
    /// The command, if the target is one.
    pub(crate) command: Option<std::process::Command>,
    /// Who takes metrics.
    pub(crate) exporters: Exporters,
    /// Functions of the host program that the capture calls.
    pub(crate) callbacks: Callbacks,
    /// Where temporary files are noted.
    pub(crate) temporary_files: TemporaryFiles,
}
