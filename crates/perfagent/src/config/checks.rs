//! The table of checks, in their order. The first check that refuses a request gives the error.

mod filters;
mod heap;
mod modes;
mod perf_data;
mod rotation;
mod targets;
mod values;

use self::filters::filters;
use self::heap::heap;
use self::modes::{locks, outputs_have_their_mode, per_pid, settings_have_their_mode, some_mode, wall_clock};
use self::perf_data::perf_data;
use self::rotation::rotation;
pub(crate) use self::targets::check_pid;
use self::targets::{
    command_exists, comms, no_children, one_target, pids, some_target, target_kernel_stacks,
};
use self::values::{
    capture_length, cpus, event, labels, map_sizes, memory, metrics_listen, min_block, off_cpu_states,
    outputs, pmu_events, pmu_format, python_frames, sample_rate, tags, unwind_mode,
};
use super::facts::Facts;
use super::request::{DefaultEnricher, Destination, Request};
use super::setting::Setting;
use super::{Plan, plan, single_output};
use crate::error::Error;
use crate::output::{FileTarget, OutputKind};

type Check = fn(&Request, &Facts) -> Result<(), Error>;

/// All checks, in their order.
const CHECKS: &[Check] = &[
    well_formed,
    no_contradiction,
    one_target,
    some_target,
    no_children,
    heap,
    some_mode,
    per_pid,
    single_output::check,
    outputs_have_their_mode,
    settings_have_their_mode,
    wall_clock,
    locks,
    off_cpu_states,
    min_block,
    pmu_format,
    unwind_mode,
    python_frames,
    event,
    sample_rate,
    capture_length,
    rotation,
    pids,
    comms,
    filters,
    target_kernel_stacks,
    tags,
    labels,
    cpus,
    map_sizes,
    memory,
    perf_data,
    outputs,
    symbol_fetching,
    metrics_listen,
    pmu_events,
    command_exists,
];

/// Runs all checks and turns the request into a plan.
pub(super) fn check(request: Request) -> Result<Plan, Error> {
    check_with(request, &Facts::read())
}

fn check_with(mut request: Request, facts: &Facts) -> Result<Plan, Error> {
    single_output::settle(&mut request);
    name_after_event(&mut request);
    for check in CHECKS {
        check(&request, facts)?;
    }
    Ok(plan::plan(request))
}

/// An automatic name of the profile of an event tells the event. Those of several events are made when they are written.
fn name_after_event(request: &mut Request) {
    let [Ok(event)] = &request.events[..] else { return };
    let event = event.kind.clone();
    let Some(output) = request.outputs.get_mut(&OutputKind::CpuProfile) else { return };
    if let Setting::Value(FileTarget::Auto(name)) = &mut output.file {
        *name = name.clone().of_event(&event);
    }
}

fn symbol_fetching(request: &Request, _: &Facts) -> Result<(), Error> {
    request.debuginfod.check()
}

fn well_formed(request: &Request, _: &Facts) -> Result<(), Error> {
    match request.malformed.first() {
        None => Ok(()),
        Some((option, reason)) => Err(Error::invalid(
            option,
            format!("{option}: {reason}"),
            "`perf-agent --help` lists the options and their values",
        )),
    }
}

fn no_contradiction(request: &Request, _: &Facts) -> Result<(), Error> {
    let settings = [
        ("--profile", request.profile.is_contradiction()),
        ("--offcpu", request.off_cpu.is_contradiction()),
        ("--offcpu-states", request.off_cpu_states.is_contradiction()),
        ("--heap", request.heap.is_contradiction()),
        ("--min-block", request.min_block.is_contradiction()),
        ("--wakers", request.wakers.is_contradiction()),
        ("--pmu", request.pmu.is_contradiction()),
        ("--locks", request.locks.is_contradiction()),
        ("--pmu-events", request.pmu_events.is_contradiction()),
        ("--pmu-format", request.pmu_format.is_contradiction()),
        ("--per-pid", request.per_pid.is_contradiction()),
        ("--metrics-listen", request.metrics_listen.is_contradiction()),
        ("metrics_interval", request.metrics_interval.is_contradiction()),
        ("--cgroup", request.cgroup.is_contradiction()),
        ("--no-children", request.no_children.is_contradiction()),
        ("--all", request.system_wide.is_contradiction()),
        ("--duration", request.duration.is_contradiction()),
        ("-o", request.single_output.is_contradiction()),
        ("--rotate", request.rotate.is_contradiction()),
        ("--sample-rate", request.sample_rate.is_contradiction()),
        ("--unwind", request.unwind.is_contradiction()),
        ("--python", request.python.is_contradiction()),
        ("--inject-python", request.inject_python.is_contradiction()),
        ("--kernel-stacks", request.kernel_stacks.is_contradiction()),
        ("--per-thread", request.per_thread.is_contradiction()),
        ("target_kernel_stacks", request.target_kernel_stacks.values().any(Setting::is_contradiction)),
        ("single_samples", request.single_samples.is_contradiction()),
        ("--max-stacks", request.max_stacks.is_contradiction()),
        ("--ring-size", request.ring_bytes.is_contradiction()),
        ("--max-memory", request.max_memory_bytes.is_contradiction()),
        ("--table-memory", request.table_memory.is_contradiction()),
        ("table_cache_dir", request.table_cache_dir.is_contradiction()),
        ("--self-check", request.self_check.is_contradiction()),
        ("--java-perf-map", request.java_perf_map.is_contradiction()),
        ("--dotnet-perf-map", request.dotnet_perf_map.is_contradiction()),
        ("--symbol-cache-dir", request.debuginfod.cache_dir.is_contradiction()),
        ("--symbol-cache-max", request.debuginfod.cache_max.is_contradiction()),
        ("--symbol-fetch-timeout", request.debuginfod.timeout.is_contradiction()),
        ("--symbol-fail-closed", request.debuginfod.fail_closed.is_contradiction()),
        ("label_enricher", matches!(request.default_enricher, DefaultEnricher::Contradiction)),
        ("-- CMD", request.commands.len() > 1),
    ];
    let outputs = request.outputs.iter().map(|(kind, to)| (kind.option(), is_contradictory(to)));
    let label = request.label_contradiction.as_ref().map(|key| format!("label {key}"));
    let given_twice = settings.into_iter().chain(outputs).find(|(_, twice)| *twice);
    match (given_twice, label) {
        (None, None) => Ok(()),
        (Some((option, _)), _) => Err(contradiction(option)),
        (None, Some(label)) => Err(contradiction(&label)),
    }
}

fn is_contradictory(to: &Destination) -> bool {
    to.file.is_contradiction() || to.sinks.len() + usize::from(to.file != Setting::Unset) > 1
}

fn contradiction(option: &str) -> Error {
    Error::invalid(option, format!("{option} was given twice, with different values"), "give it once")
}

#[cfg(test)]
mod tests;
