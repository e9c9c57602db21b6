//! Turns a request that passed all checks into a plan.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::Command;

use events::counting::CounterSpec;

use super::request::{DefaultEnricher, Destination, Request};
use super::setting::Setting;
use super::{
    Callbacks, Config, DEFAULT_HEAP_RING_BYTES, DEFAULT_MAX_MEMORY_BYTES, DEFAULT_MAX_STACKS,
    DEFAULT_RING_BYTES, DEFAULT_SAMPLE_RATE_HZ, DEFAULT_TABLE_MEMORY, Enrichment, Plan, PmuFormat, Targets,
    Unwind,
};
use crate::OffCpuState;
use crate::output::{FileTarget, OutputKind, OutputTarget};

/// The plan of a request that passed all checks.
pub(super) fn plan(request: Request) -> Plan {
    let takes_heap = request.takes_heap();
    let single_samples = request.single_samples.is_on() || (request.profile.is_on() && shows_times(&request));
    let single_intervals = request.off_cpu.is_on() && shows_times(&request);
    let mut command: Option<Command> = None;
    let targets = if let Some(given) = request.commands.into_iter().next() {
        let program = given.get_program().to_owned();
        command = Some(given);
        Targets::Command(program)
    } else if request.system_wide.is_on() {
        Targets::System
    } else {
        let mut seen = HashSet::new();
        Targets::Pids(request.pids.into_iter().flatten().filter(|pid| seen.insert(*pid)).collect())
    };
    let cpus = request.cpus.map(|mut cpus| {
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    });
    let default_ring = if takes_heap { DEFAULT_HEAP_RING_BYTES } else { DEFAULT_RING_BYTES };
    let config = Config {
        targets,
        comms: request.comms,
        no_children: request.no_children.is_on(),
        tids: request.tids.into_iter().flatten().collect(),
        cgroup: request.cgroup.value().cloned(),
        duration: request.duration.value().copied(),
        cpu_profile: request.profile.is_on() || takes_heap,
        events: request.events.into_iter().flatten().collect(),
        heap: request.heap.value().copied().flatten(),
        off_cpu_profile: request.off_cpu.is_on(),
        off_cpu_states: request
            .off_cpu_states
            .value()
            .cloned()
            .unwrap_or_else(|| vec![OffCpuState::Blocked, OffCpuState::IoWait]),
        min_block: request.min_block.value().copied().unwrap_or_default(),
        wakers: request.wakers.is_on(),
        pmu: request.pmu.is_on(),
        locks: request.locks.is_on(),
        pmu_events: request.pmu_events.value().cloned().unwrap_or_else(CounterSpec::defaults),
        per_pid: request.per_pid.is_on(),
        metrics_listen: request.metrics_listen.value().cloned(),
        metrics_interval: request.metrics_interval.value().copied().filter(|interval| !interval.is_zero()),
        wall_profile: request.outputs.get(&OutputKind::WallProfile).is_some_and(Destination::is_given),
        sample_rate_hz: request.sample_rate.value().copied().unwrap_or(DEFAULT_SAMPLE_RATE_HZ),
        unwind: request.unwind.value().copied().unwrap_or(Unwind::Auto),
        python: request.python.value().copied().unwrap_or_default(),
        inject_python: request.inject_python.is_on(),
        kernel_stacks: request.kernel_stacks.is_on(),
        target_kernel_stacks: request
            .target_kernel_stacks
            .iter()
            .filter_map(|(pid, on)| Some((*pid, *on.value()?)))
            .collect(),
        per_thread: request.per_thread.is_on(),
        single_samples,
        single_intervals,
        perf_data: request.outputs.get(&OutputKind::PerfData).and_then(path_of),
        drawing: request.drawing,
        cpus,
        tags: request.tags.into_iter().flatten().collect(),
        labels: request.labels,
        max_stacks: request.max_stacks.value().copied().unwrap_or(DEFAULT_MAX_STACKS),
        ring_bytes: request.ring_bytes.value().copied().unwrap_or(default_ring),
        max_memory_bytes: request.max_memory_bytes.value().copied().unwrap_or(DEFAULT_MAX_MEMORY_BYTES),
        table_memory: request.table_memory.value().copied().unwrap_or(DEFAULT_TABLE_MEMORY),
        table_cache_dir: request.table_cache_dir.value().cloned(),
        self_check: request.self_check.is_on(),
        java_perf_map: request.java_perf_map.is_on(),
        dotnet_perf_map: request.dotnet_perf_map.is_on(),
        rotate: request.rotate.value().copied(),
        fetching: request.debuginfod.effective(),
    };
    let pmu_format = request.pmu_format.value().copied().unwrap_or_default();
    // The capture itself writes that file.
    let outputs = request.outputs.into_iter().filter(|(kind, _)| *kind != OutputKind::PerfData);
    let outputs = outputs.filter_map(|(kind, to)| {
        let kind = match (kind, pmu_format) {
            (OutputKind::PmuReport, PmuFormat::Json) => OutputKind::PmuJson,
            (kind, _) => kind,
        };
        let target = match to.file {
            Setting::Value(file) => return Some((file.kind_of(kind), OutputTarget::File(file))),
            _ => OutputTarget::Sink(to.sinks.into_iter().next()?),
        };
        Some((kind, target))
    });
    let mut enrichment = Enrichment { without_default: false, enrichers: Vec::new() };
    match request.default_enricher {
        DefaultEnricher::Replaced(enricher) => {
            enrichment.without_default = true;
            enrichment.enrichers.push(enricher);
        }
        DefaultEnricher::Removed => enrichment.without_default = true,
        DefaultEnricher::Kept | DefaultEnricher::Contradiction => {}
    }
    enrichment.enrichers.extend(request.added_enrichers);
    Plan {
        config,
        outputs: outputs.collect(),
        command,
        exporters: request.exporters,
        callbacks: Callbacks {
            enrichment,
            table_hooks: request.table_hooks,
            exec_hooks: request.exec_hooks,
            symbol_sources: request.symbol_sources,
        },
        temporary_files: request.temporary_files,
    }
}

/// Whether an output shows when samples were taken.
fn shows_times(request: &Request) -> bool {
    request.outputs.get(&OutputKind::Html).is_some_and(Destination::is_given)
}

/// The path of an output that goes to a file with a chosen name.
fn path_of(output: &Destination) -> Option<PathBuf> {
    match output.file.value()? {
        FileTarget::Path(path) => Some(path.clone()),
        _ => None,
    }
}
