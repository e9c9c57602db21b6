//! Captures of perf-agent with the run time of its programs, and sums of them.

use anyhow::{Context, Result};

use truth::frame::Capture;
use truth::profiler::{Profiler, Scope};

pub(super) fn capture(agent: &Profiler, pid: u32, seconds: f64, rate_hz: u32) -> Result<Capture> {
    let folder = tempfile::tempdir().context("create a folder for the profile")?;
    agent.start(Scope::Process(pid), seconds, rate_hz, folder.path())?.finish()
}

/// Samples and run time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub(super) samples: u64,
    pub(super) ns: u64,
}

impl Sum {
    pub(super) fn add(&mut self, capture: &Capture) -> Result<()> {
        self.samples += capture.samples();
        self.ns += capture.kernel_ns.context("no run time of the agent's BPF programs was seen")?;
        Ok(())
    }

    /// In ns.
    pub(super) fn per_sample(&self) -> f64 {
        self.ns as f64 / self.samples.max(1) as f64
    }
}
