//! Run times of BPF programs, from the kernel's own statistics (`kernel.bpf_stats_enabled`).

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};

const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// Statistics switched on; back to what they were when dropped.
#[derive(Debug)]
pub struct BpfStats {
    before: String,
}

impl BpfStats {
    /// Switches the statistics on.
    ///
    /// # Errors
    /// Without the privilege, or on a kernel without them.
    pub fn enable() -> Result<Self> {
        let before = fs::read_to_string(SWITCH).with_context(|| format!("read {SWITCH}"))?;
        fs::write(SWITCH, "1").with_context(|| format!("write {SWITCH}; run as root"))?;
        Ok(Self { before })
    }

    /// Whether the kernel keeps statistics now.
    #[must_use]
    pub fn are_enabled() -> bool {
        fs::read_to_string(SWITCH).is_ok_and(|on| on.trim() == "1")
    }
}

impl Drop for BpfStats {
    fn drop(&mut self) {
        // If this fails, the statistics stay on, which costs little.
        let _ = fs::write(SWITCH, self.before.trim());
    }
}

/// Time and runs of the programs of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramTimes {
    /// Time in ns.
    pub run_ns: u64,
    /// Number of runs.
    pub runs: u64,
    /// Time in ns of the programs of perf events alone, which take samples.
    pub sampler_ns: u64,
    /// Number of runs of these: samples, and those of processes that are not recorded.
    pub sampler_runs: u64,
}

/// `BPF_PROG_TYPE_PERF_EVENT`
const PERF_EVENT: u64 = 7;

impl ProgramTimes {
    /// The sum over all programs that a process holds open, each once.
    #[must_use]
    pub fn of_process(pid: u32) -> Self {
        let mut programs: HashMap<u64, Self> = HashMap::new();
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return Self::default() };
        for entry in entries.flatten() {
            let Ok(text) = fs::read_to_string(entry.path()) else { continue };
            let value =
                |key: &str| text.lines().find_map(|l| l.strip_prefix(key)?.trim().parse::<u64>().ok());
            if let (Some(id), Some(run_ns), Some(runs)) =
                (value("prog_id:"), value("run_time_ns:"), value("run_cnt:"))
            {
                let of_sampler = |of: u64| if value("prog_type:") == Some(PERF_EVENT) { of } else { 0 };
                let (sampler_ns, sampler_runs) = (of_sampler(run_ns), of_sampler(runs));
                programs.insert(id, Self { run_ns, runs, sampler_ns, sampler_runs });
            }
        }
        programs.values().fold(Self::default(), |sum, one| Self {
            run_ns: sum.run_ns + one.run_ns,
            runs: sum.runs + one.runs,
            sampler_ns: sum.sampler_ns + one.sampler_ns,
            sampler_runs: sum.sampler_runs + one.sampler_runs,
        })
    }
}

/// Reads the times of a process's programs again and again until it closes them, and keeps the last ones.
#[derive(Debug)]
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<ProgramTimes>>,
}

impl Watch {
    pub(super) fn of(pid: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut last = ProgramTimes::default();
            while !stopped.load(Ordering::Relaxed) {
                let now = ProgramTimes::of_process(pid);
                if now.runs >= last.runs {
                    last = now;
                }
                thread::sleep(Duration::from_millis(20));
            }
            last
        });
        Self { stop, thread: Some(thread) }
    }

    /// The last times, if the kernel kept any.
    pub(super) fn finish(mut self) -> Option<ProgramTimes> {
        self.stop.store(true, Ordering::Relaxed);
        let times = self.thread.take()?.join().ok()?;
        (times.runs > 0).then_some(times)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
