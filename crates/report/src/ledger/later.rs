//! One ledger for consecutive intervals of a capture.

use std::time::Duration;

use super::model::Ledger;
use crate::figures::add;

/// Adds the ledger of the interval that follows. Figures that belong to the whole capture, such as the number of processes, are those of the
/// later ledger. Each interval counts its own distinct stacks. The parts of processes are left to the ledgers of the intervals.
pub(crate) fn include(ledger: &mut Ledger, later: &Ledger) {
    for (sum, more) in sums(ledger).zip(sums(&mut later.clone())) {
        add(sum, *more);
    }
    for (time, more) in [
        (&mut ledger.agent_cpu, later.agent_cpu),
        (&mut ledger.agent_elapsed, later.agent_elapsed),
        (&mut ledger.elapsed, later.elapsed),
    ] {
        *time = time.saturating_add(more);
    }
    ledger.bpf_cpu = match (ledger.bpf_cpu, later.bpf_cpu) {
        (Some(earlier), Some(later)) => Some(Duration::saturating_add(earlier, later)),
        (earlier, later) => earlier.or(later),
    };
    if let (Some(wall), Some(later)) = (&mut ledger.wall_clock, &later.wall_clock) {
        wall.include(later);
    }
    ledger.shown.add(later.shown, 1);
    ledger.shown_ns.add(later.shown_ns, 1);
    ledger.fetches = match (ledger.fetches, later.fetches) {
        (Some(earlier), Some(later)) => Some(earlier.and(&later)),
        (earlier, later) => earlier.or(later),
    };
    ledger.agent_rss_peak_kib = ledger.agent_rss_peak_kib.max(later.agent_rss_peak_kib);
    ledger.bpf_memory_kib = ledger.bpf_memory_kib.max(later.bpf_memory_kib);
    ledger.deferred_pending = later.deferred_pending;
    ledger.python_unsupported = later.python_unsupported;
    ledger.trampolines.clone_from(&later.trampolines);
    ledger.heap.clone_from(&later.heap);
    ledger.heap_windows = later.heap_windows;
    ledger.tables_failed = later.tables_failed;
    ledger.rules_left_out = later.rules_left_out;
    ledger.processes = later.processes;
    ledger.unreadable_processes = later.unreadable_processes;
    ledger.never_began &= later.never_began;
    ledger.by_process.clear();
}

/// The figures that add up over intervals.
fn sums(ledger: &mut Ledger) -> impl Iterator<Item = &mut u64> + use<'_> {
    let single = [
        &mut ledger.samples,
        &mut ledger.lost_ring_full,
        &mut ledger.lost_map_full,
        &mut ledger.lost_no_memory,
        &mut ledger.lost_memory_limit,
        &mut ledger.lost_busy,
        &mut ledger.lost_unseen,
        &mut ledger.throttled,
        &mut ledger.not_run,
        &mut ledger.values_unreadable,
        &mut ledger.values_negative,
        &mut ledger.outside_namespace,
        &mut ledger.skipped_min_block,
        &mut ledger.skipped_min_block_ns,
        &mut ledger.wakers_lost,
        &mut ledger.off_cpu_ns,
        &mut ledger.lock_ns,
        &mut ledger.owners_seen,
        &mut ledger.released,
        &mut ledger.owners_lost,
        &mut ledger.lengths_lost,
        &mut ledger.no_user_stack,
        &mut ledger.not_run_yet,
        &mut ledger.asleep_before,
        &mut ledger.deferred,
        &mut ledger.unsent_of_process,
        &mut ledger.unsent_of_machine,
        &mut ledger.unsent_ring_full,
        &mut ledger.python_merge_failed,
        &mut ledger.frames,
        &mut ledger.frames_walked,
        &mut ledger.leaves_undecided,
        &mut ledger.memo_checked,
        &mut ledger.memo_differed,
        &mut ledger.memo_hits,
        &mut ledger.stacks_sent,
        &mut ledger.requests_lost,
        &mut ledger.threads_lost,
        &mut ledger.processes_lost,
        &mut ledger.seams_lost,
        &mut ledger.singles_lost,
        &mut ledger.life_lost,
        &mut ledger.side_band_lost,
        &mut ledger.tables_evicted,
        &mut ledger.processes_evicted,
        &mut ledger.renames_skipped,
        &mut ledger.stacks,
    ];
    single.into_iter().chain(&mut ledger.walks).chain(&mut ledger.walk_ns).chain(&mut ledger.python_walks)
}
