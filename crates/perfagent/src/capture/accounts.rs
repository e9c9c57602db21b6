//! The ledgers and the metrics of a capture that goes on.

use std::time::Duration;

use metrics::Span;

use super::{Capture, Off, shown};
use crate::processes::monotonic_ns;
use crate::{Mode, health};

impl Capture {
    /// Length of the capture so far.
    pub(super) fn elapsed(&self) -> Duration {
        Duration::from_nanos(monotonic_ns() - self.start_ns)
    }

    /// Takes in what was counted of processes, where the kernel has room for what is counted in a second.
    pub(super) fn gather_metrics(&mut self) {
        let Some(figures) = &mut self.figures else { return };
        let taken = figures.take_by_process(&mut self.kernel, &self.processes);
        self.checked(taken);
    }

    /// Takes a snapshot of the metrics and shares it.
    pub(super) fn share_metrics(&mut self, duration: Duration) {
        let span = Span { start: self.started, duration };
        let figures = self.figures.as_mut();
        let snapshot = figures.map(|figures| figures.snapshot(&mut self.kernel, &self.processes, span));
        let snapshot = snapshot.and_then(|snapshot| self.checked(snapshot));
        self.shared.set_metrics(snapshot);
    }

    /// Shares how the agent is, for those who ask over HTTP.
    pub(super) fn share_health(&mut self) {
        let mut health = health::of(&self.ledgers);
        if self.config.cpu_profile || self.config.off_cpu_profile {
            self.namer.tell(&mut health);
        }
        let memory = self.kernel.memory();
        health.bpf_memory_bytes = Some((memory.arena_bytes + memory.fixed_bytes) as u64);
        let times = self.kernel.run_times_ns().unwrap_or_default();
        health.bpf_cpu =
            times.into_iter().map(|(name, time_ns)| (name, Duration::from_nanos(time_ns))).collect();
        self.shared.set_health(health, self.usage);
    }

    /// Takes in what the programs have counted so far.
    pub(super) fn update_ledgers(&mut self) {
        let (on_cpu, off_cpu) = (self.kernel.counters(), self.kernel.off_cpu_counters());
        let throttled_ns = self.events.as_mut().and_then(|events| events.throttled_ns()).unwrap_or(0);
        let memory = self.kernel.memory();
        let renames_skipped = self.life_counts().names_skipped;
        let renames_skipped = self.processes.names_never_shown(renames_skipped);
        let (counts, losses) = (self.processes.counts(), self.processes.losses());
        let elapsed = self.elapsed();
        for ledger in &mut self.ledgers {
            match ledger.mode {
                Mode::OnCpu => {
                    ledger.take(&on_cpu, &off_cpu);
                    ledger.add_deferred(&self.deferred_ends[Off::No as usize]);
                    let throttled = u128::from(throttled_ns) * u128::from(ledger.rate_hz) / 1_000_000_000;
                    ledger.throttled = throttled as u64;
                }
                Mode::OffCpu => {
                    ledger.take(&off_cpu, &on_cpu);
                    ledger.add_deferred(&self.deferred_ends[Off::Yes as usize]);
                    ledger.wakers_lost += self.stacks.book.wakers_not_kept;
                }
                // The first is made at the end; of the second there is no more than what is not followed.
                Mode::Wall | Mode::Pmu => ledger.take_losses(&off_cpu, &on_cpu),
            }
            let not_kept = shown::not_kept(&self.config, ledger.mode, &self.stacks.book.not_kept);
            ledger.lost_no_memory += not_kept;
            ledger.samples -= not_kept.min(ledger.samples);
            ledger.processes = counts.targets;
            ledger.renames_skipped = renames_skipped;
            ledger.unreadable_processes = counts.unreadable;
            (ledger.life_lost, ledger.side_band_lost) = (losses.life, losses.side_band);
            ledger.tables_failed = self.tables.failed();
            ledger.elapsed = elapsed;
            ledger.bpf_memory_kib = ((memory.arena_bytes + memory.fixed_bytes) >> 10) as u64;
            self.usage.tell(ledger);
        }
    }
}
