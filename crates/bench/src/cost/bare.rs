//! The baseline: `bpf_get_stack` in a perf event program, and nothing else.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use anyhow::{Context, Result};
use libbpf_rs::Object;
use sys::perf::{self, Attr};

use truth::bpf_object as object;
use truth::profiler::ProgramTimes;

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;

/// The samples of the bare program.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Samples that gave a stack.
    pub samples: u64,
    /// Run time of all.
    pub run_ns: u64,
    /// Frames of all.
    pub frames: f64,
}

/// The bare program at work on one thread.
pub struct Bare {
    object: Object,
    event: OwnedFd,
    before: ProgramTimes,
}

impl std::fmt::Debug for Bare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bare").field("event", &self.event).finish_non_exhaustive()
    }
}

impl Bare {
    /// Loads it and samples a thread on any CPU.
    ///
    /// # Errors
    /// Without clang or the privilege.
    pub fn attach(out: &Path, pid: u32, rate_hz: u32) -> Result<Self> {
        let before = ProgramTimes::of_process(std::process::id());
        let object = object::load("bare_stack", out)?;
        let attr = Attr {
            kind: PERF_TYPE_SOFTWARE,
            config: PERF_COUNT_SW_CPU_CLOCK,
            sample_period: u64::from(rate_hz),
            flags: perf::DISABLED | perf::FREQ,
            ..Attr::default()
        };
        let event = perf::open(&attr, i32::try_from(pid)?, -1, None)
            .with_context(|| format!("open a perf event on {pid}"))?;
        let program =
            object.progs().find(|p| p.name() == OsStr::new("bare_stack")).context("no program bare_stack")?;
        perf::set_bpf(event.as_fd(), program.as_fd()).context("attach bare_stack")?;
        perf::enable(event.as_fd()).context("enable the perf event")?;
        Ok(Self { object, event, before })
    }

    /// Ends it.
    ///
    /// # Errors
    /// If nothing was sampled, or the statistics are off.
    pub fn finish(self) -> Result<Taken> {
        perf::disable(self.event.as_fd()).context("disable the perf event")?;
        let [samples, bytes] = object::sums(&self.object, "stacks", [127, 128])?;
        let times = ProgramTimes::of_process(std::process::id());
        anyhow::ensure!(samples > 0, "the bare program took no sample");
        let run_ns = times.run_ns - self.before.run_ns;
        Ok(Taken { samples, run_ns, frames: bytes as f64 / 8.0 })
    }
}
