//! The resources that perf-agent itself uses.

use std::time::{Duration, Instant};

use recording::Cost;

/// Measures the resources that this process uses from a given time on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    since: Instant,
    cpu_before: Duration,
}

impl Usage {
    /// Starts to measure.
    pub(crate) fn begin() -> Self {
        Self { since: Instant::now(), cpu_before: cpu() }
    }

    /// CPU time so far.
    pub(crate) fn cpu(&self) -> Duration {
        cpu().saturating_sub(self.cpu_before)
    }

    /// Resources used so far, without the BPF programs.
    pub(crate) fn cost(&self) -> Cost {
        let Ok(usage) = sys::usage::usage() else { return Cost::default() };
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Cost {
            agent_cpu_ns: nanoseconds((usage.user + usage.system).saturating_sub(self.cpu_before)),
            agent_elapsed_ns: nanoseconds(self.since.elapsed()),
            agent_rss_peak_kib: usage.peak_rss_bytes >> 10,
            ..Cost::default()
        }
    }
}

/// Largest resident set of this process so far; 0 if the kernel does not say.
pub(crate) fn peak_rss_kib() -> u64 {
    sys::usage::usage().map_or(0, |usage| usage.peak_rss_bytes >> 10)
}

/// CPU time of this process since its start.
fn cpu() -> Duration {
    sys::usage::usage().map_or(Duration::ZERO, |usage| usage.user + usage.system)
}
