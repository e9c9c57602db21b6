//! One ledger for consecutive intervals of a capture.

use std::time::Duration;

use super::model::Ledger;
use crate::figures::add;

impl Ledger {
    /// Adds the ledger of the interval that follows. Figures that belong to the whole capture, such as the number of processes, are those of the
    /// later ledger. Each interval counts its own distinct stacks. The parts of processes are left to the ledgers of the intervals.
    pub(crate) fn include(&mut self, later: &Self) {
        for (sum, more) in self.sums().into_iter().zip(later.clone().sums()) {
            add(sum, *more);
        }
        for (time, more) in [
            (&mut self.agent_cpu, later.agent_cpu),
            (&mut self.agent_elapsed, later.agent_elapsed),
            (&mut self.elapsed, later.elapsed),
        ] {
            *time = time.saturating_add(more);
        }
        self.bpf_cpu = match (self.bpf_cpu, later.bpf_cpu) {
            (Some(earlier), Some(later)) => Some(Duration::saturating_add(earlier, later)),
            (earlier, later) => earlier.or(later),
        };
        if let (Some(wall), Some(later)) = (&mut self.wall_clock, &later.wall_clock) {
            wall.include(later);
        }
        self.shown.add(later.shown, 1);
        self.fetches = match (self.fetches, later.fetches) {
            (Some(earlier), Some(later)) => Some(earlier.and(&later)),
            (earlier, later) => earlier.or(later),
        };
        self.agent_rss_peak_kib = self.agent_rss_peak_kib.max(later.agent_rss_peak_kib);
        self.bpf_memory_kib = self.bpf_memory_kib.max(later.bpf_memory_kib);
        self.deferred_pending = later.deferred_pending;
        self.python_unsupported = later.python_unsupported;
        self.trampolines.clone_from(&later.trampolines);
        self.heap.clone_from(&later.heap);
        self.heap_windows = later.heap_windows;
        self.tables_failed = later.tables_failed;
        self.rules_left_out = later.rules_left_out;
        self.processes = later.processes;
        self.unreadable_processes = later.unreadable_processes;
        self.never_began &= later.never_began;
        self.by_process.clear();
    }

    /// The figures that add up over intervals.
    fn sums(&mut self) -> impl Iterator<Item = &mut u64> + use<'_> {
        let single = [
            &mut self.samples,
            &mut self.lost_ring_full,
            &mut self.lost_map_full,
            &mut self.lost_no_memory,
            &mut self.lost_memory_limit,
            &mut self.lost_busy,
            &mut self.lost_unseen,
            &mut self.throttled,
            &mut self.not_run,
            &mut self.values_unreadable,
            &mut self.values_negative,
            &mut self.outside_namespace,
            &mut self.skipped_min_block,
            &mut self.skipped_min_block_ns,
            &mut self.wakers_lost,
            &mut self.off_cpu_ns,
            &mut self.lock_ns,
            &mut self.owners_seen,
            &mut self.released,
            &mut self.owners_lost,
            &mut self.lengths_lost,
            &mut self.no_user_stack,
            &mut self.not_run_yet,
            &mut self.asleep_before,
            &mut self.deferred,
            &mut self.unsent_of_process,
            &mut self.unsent_of_machine,
            &mut self.unsent_ring_full,
            &mut self.python_merge_failed,
            &mut self.frames,
            &mut self.frames_walked,
            &mut self.memo_checked,
            &mut self.memo_differed,
            &mut self.memo_hits,
            &mut self.stacks_sent,
            &mut self.requests_lost,
            &mut self.threads_lost,
            &mut self.processes_lost,
            &mut self.seams_lost,
            &mut self.singles_lost,
            &mut self.life_lost,
            &mut self.side_band_lost,
            &mut self.tables_evicted,
            &mut self.processes_evicted,
            &mut self.renames_skipped,
            &mut self.stacks,
        ];
        single.into_iter().chain(&mut self.walks).chain(&mut self.python_walks)
    }
}
