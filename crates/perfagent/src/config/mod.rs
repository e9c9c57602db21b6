//! The description of a capture: the builder, its validation, and the effective configuration.
//!
//! Guaranteed: the setters of [`Builder`] and its textual options fill one [`request::Request`]. One ordered table
//! ([`checks`]) checks it, so programs and the command line get the same refusals in the same words. Validation reads from
//! the system (paths, `PATH`, one sysctl, the online CPUs) and changes nothing.
//! Not here: whether the targets exist and the kernel supports the capture; the start checks that.

mod builder;
mod checks;
pub(crate) mod command;
mod debuginfod;
mod duration;
mod event;
mod event_value;
mod facts;
mod heap;
mod labels;
mod options;
mod plan;
mod python;
mod request;
mod setting;
mod single_output;
mod size;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use builder::Builder;
pub(crate) use checks::check_pid;
pub use debuginfod::Debuginfod;
pub(crate) use debuginfod::Fetching;
pub use duration::{DurationError, parse_duration};
pub(crate) use event::{Counted, SampledEvent};
pub(crate) use event_value::EventValue;
pub use heap::HeapMode;
pub(crate) use labels::{Enricher, Enrichment, RESERVED_LABELS};
pub use labels::{Labels, Namespaces, ProcessInfo};
pub use python::PythonFrames;

use events::counting::CounterSpec;
use metrics::endpoint::ListenAddress;

use crate::OffCpuState;
use crate::export::Exporters;
use crate::hooks::{CompiledTable, ExecutedProgram, Hooks};
use crate::output::{Drawing, OutputKind, OutputTarget, TemporaryFiles};
use crate::symbol_source::GivenSources;

/// Default samples per second and CPU.
pub const DEFAULT_SAMPLE_RATE_HZ: u32 = 99;
/// Default number of distinct stacks that the kernel holds between two drains.
pub const DEFAULT_MAX_STACKS: u32 = 65_536;
/// Default size in bytes of the ring that carries new stacks.
pub const DEFAULT_RING_BYTES: u32 = 4 << 20;
/// Default size in bytes of the ring with an allocation profile. A program allocates thousands of times before its first unwind table is ready, and those
/// stacks are sent unwalked.
pub const DEFAULT_HEAP_RING_BYTES: u32 = 32 << 20;
/// Kernel memory in bytes for unwind tables and mappings, by default.
pub const DEFAULT_TABLE_MEMORY: u32 = 32 << 20;

/// Default bytes for the stacks of a capture, or of an interval of it, all together.
pub const DEFAULT_MAX_MEMORY_BYTES: u64 = recording::Limits::BYTES as u64;

/// How user stacks are walked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unwind {
    /// Frame pointers only, no tables.
    Fp,
    /// Tables from unwind information; frame pointers where no table covers an address. All tables of the targets are
    /// compiled before the first sample.
    Dwarf,
    /// As `Dwarf`, with a bounded wait for tables. With the whole system as target, tables are compiled in order of use. With
    /// processes as targets, the start waits at most 5 s for tables if there is an off-CPU profile, and 100 ms for an on-CPU
    /// profile alone; user space walks its stacks until the tables are ready.
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

/// The format of a report of metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PmuFormat {
    /// Text for people.
    #[default]
    Text,
    /// JSON for programs; it names its schema.
    Json,
}

/// The targets of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Targets {
    /// These processes with all their threads and descendants, in the given order without duplicates; besides, those that
    /// [`Config::comms`] names.
    Pids(Vec<u32>),
    /// All processes and kernel threads.
    System,
    /// A command that the agent starts, with its descendants. The value is its program as given.
    Command(std::ffi::OsString),
}

/// The effective configuration of an agent: everything that was set, and the defaults for the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub(crate) targets: Targets,
    pub(crate) comms: Vec<String>,
    pub(crate) no_children: bool,
    pub(crate) tids: Vec<u32>,
    pub(crate) cgroup: Option<String>,
    pub(crate) duration: Option<Duration>,
    pub(crate) cpu_profile: bool,
    /// The events that are sampled instead of time on CPUs.
    pub(crate) events: Vec<SampledEvent>,
    /// Allocations are recorded in place of samples; `cpu_profile` is set then.
    pub(crate) heap: Option<HeapMode>,
    pub(crate) off_cpu_profile: bool,
    pub(crate) off_cpu_states: Vec<OffCpuState>,
    pub(crate) min_block: Duration,
    pub(crate) wakers: bool,
    pub(crate) wall_profile: bool,
    pub(crate) locks: bool,
    pub(crate) pmu: bool,
    pub(crate) pmu_events: Vec<CounterSpec>,
    pub(crate) per_pid: bool,
    pub(crate) metrics_listen: Option<ListenAddress>,
    pub(crate) metrics_interval: Option<Duration>,
    pub(crate) sample_rate_hz: u32,
    pub(crate) unwind: Unwind,
    pub(crate) python: PythonFrames,
    pub(crate) inject_python: bool,
    pub(crate) kernel_stacks: bool,
    pub(crate) target_kernel_stacks: BTreeMap<u32, bool>,
    pub(crate) per_thread: bool,
    pub(crate) single_samples: bool,
    pub(crate) single_intervals: bool,
    /// Path of the perf.data file, if one is written.
    pub(crate) perf_data: Option<std::path::PathBuf>,
    pub(crate) drawing: Drawing,
    pub(crate) cpus: Option<Vec<u32>>,
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) labels: Labels,
    pub(crate) max_stacks: u32,
    pub(crate) ring_bytes: u32,
    pub(crate) max_memory_bytes: u64,
    pub(crate) table_memory: u32,
    pub(crate) table_cache_dir: Option<PathBuf>,
    pub(crate) self_check: bool,
    pub(crate) java_perf_map: bool,
    pub(crate) dotnet_perf_map: bool,
    pub(crate) rotate: Option<Duration>,
    pub(crate) fetching: Fetching,
}

impl Config {
    /// The length of an interval, if the capture is cut into intervals with their own outputs.
    #[must_use]
    pub fn rotate(&self) -> Option<Duration> {
        self.rotate
    }

    /// The debuginfod servers in use, in their order, without user names and passwords.
    #[must_use]
    pub fn debuginfod_servers(&self) -> Vec<String> {
        self.fetching.servers()
    }

    /// The directory for fetched debug files, if one was set.
    #[must_use]
    pub fn symbol_cache_dir(&self) -> Option<&Path> {
        self.fetching.cache_dir()
    }

    /// Whether frames in files whose debug file does not come stay without names.
    #[must_use]
    pub fn symbol_fail_closed(&self) -> bool {
        self.fetching.fail_closed
    }

    /// The targets.
    #[must_use]
    pub fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Names of processes that are targets, in the order given.
    #[must_use]
    pub fn comms(&self) -> &[String] {
        &self.comms
    }

    /// Whether the descendants of the targets are left out.
    #[must_use]
    pub fn no_children(&self) -> bool {
        self.no_children
    }

    /// The threads that samples are taken of; empty means all.
    #[must_use]
    pub fn tids(&self) -> &[u32] {
        &self.tids
    }

    /// The control group that samples are taken of, as it was given.
    #[must_use]
    pub fn cgroup(&self) -> Option<&str> {
        self.cgroup.as_deref()
    }

    /// The requested length, if any. The agent itself runs until it is stopped; the caller stops it after this time.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        self.duration
    }

    /// Whether an on-CPU profile is taken, or those of [`Self::events`].
    #[must_use]
    pub fn cpu_profile(&self) -> bool {
        self.cpu_profile
    }

    /// The events that are sampled instead of time on CPUs, as ledgers name them, and what each sample stands for.
    pub fn events(&self) -> impl Iterator<Item = (&str, u64)> {
        self.events.iter().map(|event| (event.name.as_str(), event.period))
    }

    /// How allocations are recorded, if they are. [`Self::cpu_profile`] is true then: they take the place of samples.
    #[must_use]
    pub fn heap(&self) -> Option<HeapMode> {
        self.heap
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

    /// Whether the waker that ends each off-CPU interval is recorded.
    #[must_use]
    pub fn wakers(&self) -> bool {
        self.wakers
    }

    /// Whether a wall-clock profile is made of the on-CPU and the off-CPU profile.
    #[must_use]
    pub fn wall_profile(&self) -> bool {
        self.wall_profile
    }

    /// Whether scheduler statistics and counters are taken.
    #[must_use]
    pub fn pmu(&self) -> bool {
        self.pmu
    }

    /// Whether waits for locks are recorded.
    #[must_use]
    pub fn locks(&self) -> bool {
        self.locks
    }

    /// Whether stacks are taken at all: scheduler statistics alone need none.
    pub(crate) fn takes_stacks(&self) -> bool {
        self.cpu_profile || self.follows_waits()
    }

    /// Whether waits of threads are recorded, which begin with a stack.
    pub(crate) fn follows_waits(&self) -> bool {
        self.off_cpu_profile || self.locks
    }

    /// Names of the events that are counted.
    pub fn pmu_events(&self) -> impl Iterator<Item = &str> {
        self.pmu_events.iter().map(CounterSpec::name)
    }

    /// Whether there are separate statistics for each process.
    #[must_use]
    pub fn per_pid(&self) -> bool {
        self.per_pid
    }

    /// The address of the metrics endpoint, as `HOST:PORT`.
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

    /// What stacks show of programs in Python.
    #[must_use]
    pub fn python(&self) -> PythonFrames {
        self.python
    }

    /// Whether the perf trampoline of CPython is switched on in processes while the capture goes on.
    #[must_use]
    pub fn inject_python(&self) -> bool {
        self.inject_python
    }

    /// Whether kernel frames are taken.
    #[must_use]
    pub fn kernel_stacks(&self) -> bool {
        self.kernel_stacks
    }

    /// Targets for which [`Self::kernel_stacks`] does not decide, and whether their kernel frames are taken.
    #[must_use]
    pub fn target_kernel_stacks(&self) -> &BTreeMap<u32, bool> {
        &self.target_kernel_stacks
    }

    /// Whether threads are counted separately.
    #[must_use]
    pub fn per_thread(&self) -> bool {
        self.per_thread
    }

    /// Whether the recording has each on-CPU sample by itself too.
    #[must_use]
    pub fn single_samples(&self) -> bool {
        self.single_samples
    }

    /// The CPUs to sample, in ascending order; none means all online CPUs.
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

    /// The largest number of distinct stacks that the kernel holds between two drains.
    #[must_use]
    pub fn max_stacks(&self) -> u32 {
        self.max_stacks
    }

    /// Bytes for the stacks of the capture, or of an interval of it, all together.
    #[must_use]
    pub fn max_memory_bytes(&self) -> u64 {
        self.max_memory_bytes
    }

    /// Size in bytes of the ring that carries new stacks.
    #[must_use]
    pub fn ring_bytes(&self) -> u32 {
        self.ring_bytes
    }

    /// Kernel memory in bytes for unwind tables and the mappings of processes.
    #[must_use]
    pub fn table_memory(&self) -> u32 {
        self.table_memory
    }

    /// The directory of the cache of unwind tables, if one was set.
    #[must_use]
    pub fn table_cache_dir(&self) -> Option<&Path> {
        self.table_cache_dir.as_deref()
    }

    /// Whether each reuse of a memo is checked by a full walk.
    #[must_use]
    pub fn self_check(&self) -> bool {
        self.self_check
    }

    /// Whether JVMs are asked for their perf maps.
    #[must_use]
    pub fn java_perf_map(&self) -> bool {
        self.java_perf_map
    }

    /// Whether .NET processes are asked for their perf maps.
    #[must_use]
    pub fn dotnet_perf_map(&self) -> bool {
        self.dotnet_perf_map
    }
}

/// Functions of the host program that the capture calls.
pub(crate) struct Callbacks {
    /// The functions that give labels.
    pub(crate) enrichment: Enrichment,
    /// The functions that are called for each compiled unwind table.
    pub(crate) table_hooks: Hooks<CompiledTable>,
    /// The functions that are called for each executed program.
    pub(crate) exec_hooks: Hooks<ExecutedProgram>,
    /// Sources of names that are asked before ours.
    pub(crate) symbol_sources: GivenSources,
}

/// The description of a capture that passed validation.
pub(crate) struct Plan {
    /// The effective configuration.
    pub(crate) config: Config,
    /// Outputs in the order of [`OutputKind`].
    pub(crate) outputs: Vec<(OutputKind, OutputTarget)>,
    /// The command, if the target is one.
    pub(crate) command: Option<std::process::Command>,
    /// The exporters of metrics.
    pub(crate) exporters: Exporters,
    /// Functions of the host program that the capture calls.
    pub(crate) callbacks: Callbacks,
    /// The list of temporary files.
    pub(crate) temporary_files: TemporaryFiles,
}
