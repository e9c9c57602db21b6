//! A request before its checks: values, unreadable texts and contradictions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use events::counting::CounterSpec;
use metrics::endpoint::ListenAddress;

use super::event::SampledEvent;
use super::setting::Setting;
use super::{Debuginfod, Enricher, HeapMode, Labels, PmuFormat, PythonFrames, Unwind};
use crate::OffCpuState;
use crate::export::Exporters;
use crate::hooks::{CompiledTable, ExecutedProgram, Hooks};
use crate::output::{Drawing, FileTarget, OutputKind, Sink, TemporaryFiles};
use crate::symbol_source::GivenSources;

/// The destinations given for one output.
#[derive(Default)]
pub(super) struct Destination {
    pub(super) file: Setting<FileTarget>,
    pub(super) sinks: Vec<Box<dyn Sink>>,
}

impl Destination {
    pub(super) fn is_given(&self) -> bool {
        self.file != Setting::Unset || !self.sinks.is_empty()
    }
}

/// How the agent's own enricher was replaced or removed.
#[derive(Default)]
pub(super) enum DefaultEnricher {
    #[default]
    Kept,
    Removed,
    Replaced(Enricher),
    Contradiction,
}

/// All settings of a capture as given.
#[derive(Default)]
pub(super) struct Request {
    /// Unknown options, and options whose text is malformed: (option, reason).
    pub(super) malformed: Vec<(String, String)>,
    pub(super) pids: Vec<Result<u32, String>>,
    /// Names of target processes.
    pub(super) comms: Vec<String>,
    pub(super) no_children: Setting<bool>,
    pub(super) tids: Vec<Result<u32, String>>,
    /// A control group as given.
    pub(super) cgroup: Setting<String>,
    pub(super) system_wide: Setting<bool>,
    pub(super) commands: Vec<Command>,
    pub(super) duration: Setting<Duration>,
    pub(super) profile: Setting<bool>,
    /// The events that are sampled instead of time on CPUs, or a text that tells none.
    pub(super) events: Vec<Result<SampledEvent, String>>,
    /// How allocations are recorded; none: they are not.
    pub(super) heap: Setting<Option<HeapMode>>,
    pub(super) off_cpu: Setting<bool>,
    pub(super) off_cpu_states: Setting<Vec<OffCpuState>>,
    pub(super) min_block: Setting<Duration>,
    pub(super) wakers: Setting<bool>,
    pub(super) pmu: Setting<bool>,
    /// Waits for locks are recorded.
    pub(super) locks: Setting<bool>,
    /// The events to count.
    pub(super) pmu_events: Setting<Vec<CounterSpec>>,
    pub(super) pmu_format: Setting<PmuFormat>,
    pub(super) per_pid: Setting<bool>,
    pub(super) metrics_listen: Setting<ListenAddress>,
    pub(super) metrics_interval: Setting<Duration>,
    pub(super) exporters: Exporters,
    pub(super) outputs: BTreeMap<OutputKind, Destination>,
    /// The output of the only kind of capture, until that kind is known: see `single_output`.
    pub(super) single_output: Setting<FileTarget>,
    pub(super) sample_rate: Setting<u32>,
    pub(super) unwind: Setting<Unwind>,
    pub(super) python: Setting<PythonFrames>,
    pub(super) inject_python: Setting<bool>,
    pub(super) kernel_stacks: Setting<bool>,
    pub(super) target_kernel_stacks: BTreeMap<u32, Setting<bool>>,
    pub(super) per_thread: Setting<bool>,
    pub(super) single_samples: Setting<bool>,
    pub(super) drawing: Drawing,
    pub(super) cpus: Option<Vec<u32>>,
    /// Key and value, or a text without `=`.
    pub(super) tags: Vec<Result<(String, String), String>>,
    pub(super) labels: Labels,
    pub(super) label_contradiction: Option<String>,
    pub(super) default_enricher: DefaultEnricher,
    pub(super) added_enrichers: Vec<Enricher>,
    pub(super) table_hooks: Hooks<CompiledTable>,
    pub(super) exec_hooks: Hooks<ExecutedProgram>,
    pub(super) symbol_sources: GivenSources,
    pub(super) max_stacks: Setting<u32>,
    pub(super) ring_bytes: Setting<u32>,
    pub(super) max_memory_bytes: Setting<u64>,
    pub(super) table_memory: Setting<u32>,
    pub(super) table_cache_dir: Setting<PathBuf>,
    pub(super) self_check: Setting<bool>,
    pub(super) java_perf_map: Setting<bool>,
    pub(super) dotnet_perf_map: Setting<bool>,
    pub(super) rotate: Setting<Duration>,
    pub(super) debuginfod: Debuginfod,
    pub(super) temporary_files: TemporaryFiles,
}

impl Request {
    /// Whether allocations are recorded.
    pub(super) fn takes_heap(&self) -> bool {
        matches!(self.heap.value(), Some(Some(_)))
    }

    pub(super) fn output(&mut self, kind: OutputKind) -> &mut Destination {
        self.outputs.entry(kind).or_default()
    }
}
