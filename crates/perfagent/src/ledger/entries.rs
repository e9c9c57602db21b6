//! A ledger as keys and values.

use super::{Ledger, Mode, percent};

/// Keys and values as they are collected.
#[derive(Default)]
struct Entries(Vec<(String, String)>);

impl Entries {
    fn put(&mut self, key: &str, value: impl ToString) {
        self.0.push((key.to_owned(), value.to_string()));
    }

    fn put_unless_zero<'a>(&mut self, counts: impl IntoIterator<Item = (&'a str, u64)>) {
        for (key, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            self.put(key, count);
        }
    }

    fn put_percent(&mut self, key: &str, percent: Option<f64>) {
        if let Some(percent) = percent {
            self.put(key, format!("{percent:.2}"));
        }
    }
}

impl Ledger {
    /// Keys and values in the order of the specification, for terminal and profile comments. What is not known is left out.
    #[must_use]
    pub fn entries(&self) -> Vec<(String, String)> {
        let mut entries = Entries::default();
        self.put_request(&mut entries);
        if self.mode.has_stacks() {
            entries.put("samples", self.samples);
            entries.put("lost", self.lost());
        }
        self.put_losses(&mut entries);
        if self.mode.has_stacks() {
            self.put_walks(&mut entries);
            self.put_times(&mut entries);
            if !self.never_began {
                self.put_work(&mut entries);
            }
        }
        self.put_costs(&mut entries);
        entries.0
    }

    fn put_request(&self, entries: &mut Entries) {
        entries.put("version", env!("CARGO_PKG_VERSION"));
        entries.put("mode", self.mode.name());
        entries.put("event", &self.event);
        if matches!(self.mode, Mode::OnCpu | Mode::Wall) {
            entries.put("rate_hz", self.rate_hz);
        }
        if let Some(cpus) = &self.cpus {
            let cpus: Vec<_> = cpus.iter().map(u32::to_string).collect();
            entries.put("cpus", cpus.join(","));
        }
        if self.mode.has_stacks() {
            entries.put("unwind", &self.unwind);
        }
    }

    fn put_losses(&self, entries: &mut Entries) {
        entries.put_unless_zero([
            ("lost.ring_full", self.lost_ring_full),
            ("lost.map_full", self.lost_map_full),
            ("lost.no_memory", self.lost_no_memory),
            ("lost.busy", self.lost_busy),
            ("lost.unseen", self.lost_unseen),
            ("throttled", self.throttled),
            ("skipped.min_block", self.skipped_min_block),
            ("skipped.min_block_ns", self.skipped_min_block_ns),
            ("skipped.outside_namespace", self.outside_namespace),
            ("wakers_lost", self.wakers_lost),
            ("seams_lost", self.seams_lost),
            ("threads_lost", self.threads_lost),
            ("processes_lost", self.processes_lost),
            ("requests_lost", self.requests_lost),
            ("tables_failed", self.tables_failed),
            ("renames_skipped", self.renames_skipped),
            ("life_lost", self.life_lost),
            ("side_band_lost", self.side_band_lost),
        ]);
    }

    fn put_walks(&self, entries: &mut Entries) {
        for (name, count) in Self::walk_names().zip(self.walks).filter(|(name, n)| *n > 0 || *name == "root")
        {
            entries.put(&format!("walks.{name}"), count);
        }
        entries.put_percent("rooted_pct", self.rooted_pct());
        entries.put_percent("symbolized_pct", self.symbolized_pct());
        entries.put_unless_zero([
            ("no_user_stack", self.no_user_stack),
            ("not_run_yet", self.not_run_yet),
            ("asleep_before", self.asleep_before),
            ("walks_deferred", self.deferred),
            ("walks_pending", self.deferred_pending),
        ]);
    }

    fn put_times(&self, entries: &mut Entries) {
        if self.mode == Mode::OffCpu {
            entries.put("offcpu_ms", self.off_cpu_ns / 1_000_000);
        }
        let Some(wall) = &self.wall_clock else { return };
        for (key, ns) in [
            ("wall.on_cpu_ns", wall.on_cpu_ns),
            ("wall.runqueue_ns", wall.run_queue_ns),
            ("wall.blocked_ns", wall.blocked_ns),
            ("wall.iowait_ns", wall.io_wait_ns),
            ("wall.sum_ns", wall.sum_ns()),
            ("wall.threads_ns", wall.threads_ns),
        ] {
            entries.put(key, ns);
        }
        if wall.threads_ns > 0 {
            let identity = 100.0 * wall.sum_ns() as f64 / wall.threads_ns as f64;
            entries.put("wall.identity_pct", format!("{identity:.2}"));
        }
    }

    fn put_work(&self, entries: &mut Entries) {
        entries.put("frames", self.frames);
        entries.put("frames_walked", self.frames_walked);
        entries.put("stacks", self.stacks);
        entries.put("stacks_sent", self.stacks_sent);
        entries.put("memo.hits", self.memo_hits);
        if self.memo_checked + self.memo_differed > 0 {
            entries.put("memo.checked", self.memo_checked);
            entries.put("memo.differed", self.memo_differed);
        }
    }

    fn put_costs(&self, entries: &mut Entries) {
        if !self.never_began {
            entries.put("processes", self.processes);
            entries.put("unreadable_processes", self.unreadable_processes);
        }
        entries.put("agent_cpu_ms", self.agent_cpu.as_millis());
        let (used, of) = (self.agent_cpu.as_nanos() as u64, self.agent_elapsed.as_nanos() as u64);
        entries.put_percent("agent_cpu_pct", percent(used, of));
        if let Some(time) = self.bpf_cpu {
            entries.put("bpf_cpu_ms", format!("{:.1}", time.as_secs_f64() * 1e3));
        }
        if !self.never_began {
            entries.put("bpf_memory_kib", self.bpf_memory_kib);
        }
        entries.put("agent_rss_peak_kib", self.agent_rss_peak_kib);
    }
}
