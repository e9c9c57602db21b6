//! The profilers under one interface: start, wait, read the result.

mod agent;
mod attached;
mod bpf;
mod perf;
mod scope;

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::frame::Capture;

pub use agent::read_pprof;
pub(crate) use agent::wait_ok;
pub(crate) use attached::until_attached;
pub use bpf::{BpfStats, ProgramTimes};
pub use perf::read_script;
pub use scope::{PerfMode, Scope};

/// A profiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Profiler {
    /// perf-agent, by the path of the binary, with further arguments.
    Agent(PathBuf, Vec<String>),
    /// `perf record`.
    Perf(PerfMode),
}

/// The `perf-agent` to run.
///
/// # Errors
/// There is none.
pub fn agent_path() -> Result<PathBuf> {
    testkit::perf_agent()
        .context("no perf-agent: build it (cargo build --release -p cli) or name it in $PERF_AGENT")
}

/// A profiler at work.
#[derive(Debug)]
pub struct Running {
    child: Child,
    kind: Profiler,
    file: PathBuf,
    log: PathBuf,
    times: Option<bpf::Watch>,
}

impl Profiler {
    /// The `perf-agent` to run, with further arguments.
    ///
    /// # Errors
    /// There is none.
    pub fn agent(more: &[String]) -> Result<Self> {
        Ok(Self::Agent(agent_path()?, more.to_vec()))
    }

    /// A short name for tables.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Agent(..) => "perf-agent",
            Self::Perf(PerfMode::Dwarf) => "perf dwarf",
            Self::Perf(PerfMode::FramePointers) => "perf -g",
            Self::Perf(PerfMode::NoStacks) => "perf, no stacks",
        }
    }

    /// The command line, and the file that it writes in `folder`.
    fn command(&self, scope: Scope, seconds: f64, rate_hz: u32, folder: &Path) -> (Command, PathBuf) {
        match self {
            Self::Agent(path, more) => agent::command(path, more, scope, seconds, rate_hz, folder),
            Self::Perf(mode) => perf::command(*mode, scope, seconds, rate_hz, folder),
        }
    }

    /// Starts it. Output and messages go to `folder`.
    ///
    /// # Errors
    /// If the command cannot be started.
    pub fn start(&self, scope: Scope, seconds: f64, rate_hz: u32, folder: &Path) -> Result<Running> {
        self.start_with(scope, seconds, rate_hz, folder, |_| {})
    }

    /// As [`Profiler::start`], with a command that is changed before it runs.
    ///
    /// # Errors
    /// If the command cannot be started.
    pub fn start_with(
        &self,
        scope: Scope,
        seconds: f64,
        rate_hz: u32,
        folder: &Path,
        change: impl FnOnce(&mut Command),
    ) -> Result<Running> {
        let (mut command, file) = self.command(scope, seconds, rate_hz, folder);
        change(&mut command);
        let log = file.with_extension("log");
        let child = agent::spawn_logged(command, &log)?;
        // Reading costs CPU time, so it is done only where there are statistics.
        let watched = matches!(self, Self::Agent(..)) && BpfStats::are_enabled();
        let times = watched.then(|| bpf::Watch::of(child.id()));
        Ok(Running { child, kind: self.clone(), file, log, times })
    }
}

impl Running {
    /// The profiler's process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The file with its messages.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Waits until it captures, if that can be seen from outside.
    ///
    /// # Errors
    /// If that takes longer than a minute.
    pub fn until_attached(&mut self) -> Result<()> {
        match self.kind {
            Profiler::Agent(..) => until_attached(&mut self.child),
            Profiler::Perf(_) => Ok(()),
        }
    }

    /// Waits for its end without reading the result.
    ///
    /// # Errors
    /// If it fails or does not end in time; its messages are in the error.
    pub fn wait(&mut self, limit: Duration) -> Result<()> {
        agent::wait_ok(&mut self.child, self.kind.name(), &self.log, limit)
    }

    /// Waits for its end and reads what it wrote.
    ///
    /// # Errors
    /// If it fails, or its file cannot be read.
    pub fn finish(mut self) -> Result<Capture> {
        self.wait(Duration::from_secs(120))?;
        let mut capture = match self.kind {
            Profiler::Agent(..) => read_pprof(&self.file)?,
            Profiler::Perf(_) => perf::read_file(&self.file)?,
        };
        let times = self.times.take().and_then(|watch| watch.finish());
        capture.kernel_ns = times.map(|times| times.run_ns);
        capture.kernel_runs = times.map(|times| times.runs);
        capture.sampler = times.map(|times| (times.sampler_ns, times.sampler_runs));
        Ok(capture)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already, except after an error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
