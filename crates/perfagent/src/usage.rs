//! What perf-agent itself uses.

use std::time::{Duration, Instant};

use crate::Ledger;

/// What this process has used since a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    since: Instant,
    cpu_before: Duration,
}

impl Usage {
    /// From now on.
    pub(crate) fn begin() -> Self {
        Self { since: Instant::now(), cpu_before: cpu() }
    }

    /// CPU time so far.
    pub(crate) fn cpu(&self) -> Duration {
        cpu().saturating_sub(self.cpu_before)
    }

    /// Tells a ledger: CPU time, the time in which it was used, and memory.
    pub(crate) fn tell(&self, ledger: &mut Ledger) {
        if let Ok(usage) = sys::usage::usage() {
            ledger.agent_cpu = (usage.user + usage.system).saturating_sub(self.cpu_before);
            ledger.agent_elapsed = self.since.elapsed();
            ledger.agent_rss_peak_kib = usage.peak_rss_bytes >> 10;
        }
    }
}

/// Of this process since its start.
fn cpu() -> Duration {
    sys::usage::usage().map_or(Duration::ZERO, |usage| usage.user + usage.system)
}
