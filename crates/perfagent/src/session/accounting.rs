//! What was seen, lost and spent, gathered from all parts of a capture.

use std::time::Duration;

use recording::{Accounting, EventAccounting};

use super::convert;
use super::parts::Parts;
use super::python_stacks::PythonStacks;

/// All figures since the start of the capture.
pub(super) fn total(parts: &mut Parts) -> Accounting {
    let life = parts.kernel.life_counts();
    let life = parts.warnings.checked(life).unwrap_or_default();
    let (targets, losses) = (parts.processes.counts(), parts.processes.losses());
    let memory = parts.kernel.memory();
    let python = parts.intake.resolver.python.as_ref();
    if let Some(injector) = &parts.injector {
        parts.shared.set_python_stats(injector.stats());
    }
    let mut accounting = Accounting {
        sampler: convert::counters(&parts.kernel.counters()),
        scheduler: convert::counters(&parts.kernel.off_cpu_counters()),
        further: parts.kernel.further_counters().iter().map(of_event).collect(),
        processes: targets.targets,
        unreadable_processes: targets.unreadable,
        renames_skipped: parts.processes.names_never_shown(life.names_skipped),
        life_lost: losses.life,
        side_band_lost: losses.side_band,
        tables_failed: parts.tables.failed(),
        rules_left_out: parts.tables.rules_left_out(),
        tables_evicted: parts.tables.evicted(),
        processes_evicted: parts.process_places.evicted(),
        python_merge_failed: python.map_or(0, PythonStacks::merge_failed),
        python_unsupported: python.map_or(0, |python| python.pythons.unsupported()),
        trampolines: parts.shared.python_stats().map(|stats| stats.counts),
        elapsed_ns: nanoseconds(parts.elapsed()),
        ..Accounting::default()
    };
    parts.sources.account(&parts.kernel, &mut accounting);
    accounting.cost = parts.usage.cost();
    accounting.cost.bpf_cpu_ns = parts.kernel.run_time_ns();
    accounting.cost.bpf_memory_kib = ((memory.table_pool_bytes + memory.fixed_bytes) >> 10) as u64;
    accounting
}

/// What the program of a further event counted.
pub(super) fn of_event(counters: &kernel::Counters) -> EventAccounting {
    EventAccounting { sampler: convert::counters(counters), ..EventAccounting::default() }
}

/// All figures of the interval that goes on.
pub(super) fn of_interval(parts: &mut Parts) -> Accounting {
    let total = total(parts);
    let mut accounting = total.since(&parts.interval.before);
    parts.interval.carried.add_to(&mut accounting);
    parts.intake.walks.account(&mut accounting);
    parts.intake.builder.account(&mut accounting);
    accounting
}

pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
