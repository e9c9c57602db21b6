//! The configuration in the terms of the kernel side and of the recording.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use kernel::{ChosenCgroup, FurtherEvent, OffCpu, SampledIn, Settings, State, ValuePlan};
use recording::{Event, TargetKind};

use crate::config::SampledEvent;
use crate::processes::{count_threads, own_namespace};
use crate::{Config, Error, OffCpuState, PythonFrames, Targets};

/// Name of the scheduler's event in ledgers.
const SCHEDULER_EVENT: &str = "sched:sched_switch";

/// Of the memory for tables, as much as a process takes with its mappings and its share of tables: there is a place for so many processes.
const BYTES_OF_A_PROCESS: u32 = 2048;
/// Kernel memory of a live object, of which there are as many as fit into the memory of the capture.
const BYTES_OF_AN_OBJECT: u64 = 128;
/// There are no fewer places than these. With the whole system as target, processes that are not sampled make place for others, so
/// fewer are enough.
const LEAST_PROCESSES: u32 = 16_384;
const LEAST_OF_SYSTEM: u32 = 1024;

/// What the programs are loaded with. `values`: where they read those of the sampled events, in their order. `go_locks`: waits of goroutines are
/// recorded.
///
/// # Errors
/// The chosen control group has gone.
pub(super) fn for_kernel(
    config: &Config,
    pids: &[u32],
    mut values: Vec<Option<ValuePlan>>,
    go_locks: bool,
) -> Result<Settings, Error> {
    values.resize(config.events.len().max(1), None);
    let mut values = values.into_iter();
    let value = values.next().flatten();
    let further = config.events.iter().skip(1).zip(values);
    let further = further.map(|(event, value)| FurtherEvent {
        sampled_in: event.sampled_in,
        sample_every: event.period,
        value,
    });
    let cgroup = config.cgroup.as_deref().map(chosen_cgroup).transpose()?;
    Ok(Settings {
        tids: config.tids.clone(),
        cgroup,
        // The standard library's key is random, so a target cannot know it.
        seed: RandomState::new().build_hasher().finish(),
        whole_system: matches!(config.targets, Targets::System),
        without_children: config.no_children,
        off_cpu: config.off_cpu_profile.then(|| off_cpu(config)),
        locks: config.locks,
        kernel_locks: config.locks && kernel::kernel_locks_may_be_followed(),
        go_locks,
        sched_stats: config.pmu.then_some(kernel::SchedStats {
            each_process: config.per_pid,
            split_events: config.pmu_events.len().min(kernel::MAX_SPLIT_EVENTS) as u8,
        }),
        kernel_stacks: config.kernel_stacks,
        kernel_stacks_by_process: !config.target_kernel_stacks.is_empty(),
        python: shows_python(config),
        per_thread: config.per_thread,
        sampled_in: match config.heap {
            Some(_) => SampledIn::Allocator,
            None => config.events.first().map(|event| event.sampled_in).unwrap_or_default(),
        },
        live_objects: u32::try_from(config.max_memory_bytes / BYTES_OF_AN_OBJECT).unwrap_or(u32::MAX),
        sample_every: config.events.first().map_or(1, |event| event.period),
        value,
        further: further.collect(),
        single_samples: config.single_samples || config.perf_data.is_some(),
        single_intervals: single_intervals(config),
        check_memo: config.self_check,
        pid_namespace: own_namespace(),
        threads: count_threads(&config.targets, pids),
        max_stacks: config.max_stacks,
        ring_bytes: config.ring_bytes,
        table_pool_bytes: config.table_memory as usize,
        max_processes: places(config),
        ..Settings::default()
    })
}

/// How long an interval lasts that is sent by itself: perf.data has all; the timeline of a page shows no short ones.
fn single_intervals(config: &Config) -> Option<Duration> {
    const SHOWN: Duration = Duration::from_millis(1);
    let all = config.perf_data.is_some().then_some(Duration::ZERO);
    all.or_else(|| config.single_intervals.then_some(SHOWN)).filter(|_| config.off_cpu_profile)
}

/// Places for processes.
fn places(config: &Config) -> u32 {
    let least = if matches!(config.targets, Targets::System) { LEAST_OF_SYSTEM } else { LEAST_PROCESSES };
    (config.table_memory / BYTES_OF_A_PROCESS).max(least)
}

fn chosen_cgroup(word: &str) -> Result<ChosenCgroup, Error> {
    let found = process::find_cgroup(word).map_err(|error| {
        Error::invalid("--cgroup", format!("--cgroup `{word}`: {error}"), "it was there before")
    })?;
    Ok(ChosenCgroup { id: found.id, levels: found.levels })
}

/// The filters of samples, as a profile tells them.
fn filters(config: &Config) -> Vec<(String, String)> {
    let tids = config.tids.iter().map(|tid| format!("tid {tid}"));
    let all = tids.chain(config.cgroup.iter().map(|group| format!("cgroup {group}")));
    all.map(|filter| ("perf-agent.filter".to_owned(), filter)).collect()
}

fn off_cpu(config: &Config) -> OffCpu {
    let state = |state: &OffCpuState| match state {
        OffCpuState::IoWait => State::IoWait,
        OffCpuState::Preempted => State::Preempted,
        _ => State::Blocked,
    };
    OffCpu {
        states: config.off_cpu_states.iter().map(state).collect(),
        min_block_ns: nanoseconds(config.min_block),
        wall_clock: config.wall_profile,
        wakers: config.wakers,
    }
}

/// The targets with a setting of their own for kernel frames. `pids`: all targets as they were resolved, in the order given.
pub(super) fn target_kernel_stacks(config: &Config, pids: &[u32]) -> Vec<(u32, bool)> {
    let Targets::Pids(given) = &config.targets else { return Vec::new() };
    let chosen = given.iter().map(|given| config.target_kernel_stacks.get(given));
    pids.iter().zip(chosen).filter_map(|(pid, on)| Some((*pid, *on?))).collect()
}

fn nanoseconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Whether functions in Python are to be found.
pub(super) fn shows_python(config: &Config) -> bool {
    // Scheduler statistics alone need no stacks. Elsewhere than on x86-64 no interpreter is known.
    cfg!(target_arch = "x86_64") && config.python != PythonFrames::Off && config.takes_stacks()
}

/// What recordings keep of the configuration.
pub(super) fn for_recording(config: &Config) -> recording::Settings {
    recording::Settings {
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        targets: match config.targets {
            Targets::Pids(_) => TargetKind::Processes,
            Targets::System => TargetKind::System,
            Targets::Command(_) => TargetKind::Command,
        },
        cpu_profile: config.cpu_profile,
        event: config.events.first().map(SampledEvent::recorded),
        further_events: config.events.iter().skip(1).map(SampledEvent::recorded).collect(),
        heap_profile: config.heap.is_some(),
        off_cpu_profile: config.off_cpu_profile,
        wall_profile: config.wall_profile,
        locks: config.locks,
        sample_rate_hz: config.sample_rate_hz,
        cpus: config.cpus.clone(),
        unwind: config.unwind.name().to_owned(),
        // Kernel frames are shown where they were taken.
        kernel_stacks: config.kernel_stacks || config.target_kernel_stacks.values().any(|on| *on),
        per_thread: config.per_thread,
        off_cpu_states: config.off_cpu_states.clone(),
        min_block_ns: nanoseconds(config.min_block),
        tags: [config.tags.clone(), filters(config)].concat(),
    }
}

/// The events of recordings, in the order of their ids.
pub(super) fn events(config: &Config) -> Vec<Event> {
    let clock = || {
        let name = events::EventSpec::cpu_clock(config.sample_rate_hz.into()).name();
        Event::cpu_clock(&name, 1_000_000_000 / u64::from(config.sample_rate_hz.max(1)))
    };
    let sampled = match config.heap {
        Some(_) => Event::heap(),
        None => config.events.first().map_or_else(clock, SampledEvent::recorded),
    };
    let mut events = vec![sampled, Event::scheduler(SCHEDULER_EVENT), Event::locks(), Event::lock_lengths()];
    events.extend(config.events.iter().skip(1).map(SampledEvent::recorded));
    events
}

#[cfg(test)]
mod tests {
    use kernel::Schema;
    use recording::Fold;

    use super::*;

    #[test]
    fn the_values_of_recordings_fold_as_the_programs_fold_them() {
        let builder = crate::AgentBuilder::default().pid(1).with_cpu_profile();
        let names = ["faults", "cs", "migrations", "minor-faults", "major-faults", "cgroup-switches"];
        let builder = names.iter().fold(builder, |builder, name| builder.event(name));
        let events = events(&builder.effective_config().unwrap());
        assert_eq!(events.len(), kernel::Event::ALL.len());
        for of_programs in kernel::Event::ALL {
            let event = &events[super::super::convert::event(of_programs).0 as usize];
            let folds = Schema::of(of_programs).folds().map(|fold| match fold {
                kernel::Fold::Sum => Fold::Sum,
                kernel::Fold::SumOfSquares => Fold::SumOfSquares,
                kernel::Fold::Max => Fold::Max,
                other => panic!("{other:?}"),
            });
            assert!(folds.eq(event.values.iter().map(|value| value.fold)), "{}", event.name);
        }
    }
}
