//! One run: a program, and one or more profilers on it during the same seconds.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::frame::Capture;
use crate::profiler::{Profiler, Running, Scope};
use crate::programs::Program;
use crate::target::Target;

/// Shortest time between the start of profilers and the line to a waiting program, where one of them does not show that it is attached.
const SETTLE: Duration = Duration::from_millis(800);

/// How long a profiler may take to end: long, for an emulated machine with busy CPUs.
const ENDED_WITHIN: Duration = Duration::from_secs(150);

/// Length and rate of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Length of the capture.
    pub seconds: f64,
    /// Sampling rate of each profiler.
    pub rate_hz: u32,
}

impl Default for Plan {
    fn default() -> Self {
        Self { seconds: 3.0, rate_hz: 999 }
    }
}

/// Runs a program that was built in `out` and profiles it by all profilers at once.
///
/// # Errors
/// If the program or a profiler fails.
pub fn run(program: &Program, out: &Path, profilers: &[Profiler], plan: Plan) -> Result<Vec<Capture>> {
    let mut target = Target::start(program, out)?;
    let captures = profile(&mut target, program.waits, profilers, plan)
        .with_context(|| format!("profile {}", program.name))?;
    Ok(captures)
}

/// Profiles a running program by all profilers at once.
///
/// # Errors
/// If a profiler fails.
pub fn profile(target: &mut Target, waits: bool, profilers: &[Profiler], plan: Plan) -> Result<Vec<Capture>> {
    let folder = tempfile::tempdir().context("create a folder for profiles")?;
    let begun = Instant::now();
    let scope = Scope::Process(target.pid());
    let is_hidden = profilers.iter().any(|profiler| matches!(profiler, Profiler::Perf(_)));
    let settle = if waits && is_hidden { SETTLE } else { Duration::ZERO };
    let seconds = plan.seconds + settle.as_secs_f64();
    let mut running = profilers
        .iter()
        .map(|p| p.start(scope, seconds, plan.rate_hz, folder.path()))
        .collect::<Result<Vec<_>>>()?;
    if waits {
        running.iter_mut().try_for_each(Running::until_attached)?;
        thread::sleep(settle.saturating_sub(begun.elapsed()));
        target.go()?;
    }
    // Wait for all of them first: reading a result takes CPU time from the others.
    for one in &mut running {
        one.wait(ENDED_WITHIN)?;
    }
    running.into_iter().map(|one| one.finish()).collect()
}
