//! One run of perf-agent in any modes, over a process, a command or the machine, and its results.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::frame::Capture;
use crate::profiler::{read_pprof, until_attached, wait_ok};

/// How long a session may last.
const PATIENCE: Duration = Duration::from_secs(600);

/// What a session profiles.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// A running process.
    Process(u32),
    /// The machine.
    Machine,
    /// A command, from its first instruction on.
    Command(&'a Path, &'a [&'a str]),
}

/// perf-agent at work.
#[derive(Debug)]
pub struct Session {
    child: Child,
    folder: tempfile::TempDir,
}

/// The results of a session.
#[derive(Debug)]
pub struct Finished {
    folder: tempfile::TempDir,
    /// The lines on stdout, which are the lines of the command.
    pub lines: Vec<String>,
    /// The messages of perf-agent.
    pub messages: String,
}

fn output(folder: &Path, mode: &str) -> PathBuf {
    folder.join(match mode {
        "--pmu" => "pmu.json",
        "--offcpu" => "off.pb.gz",
        "--wall-output" => "wall.pb.gz",
        "--heap" => "heap.pb.gz",
        _ => "on.pb.gz",
    })
}

impl Session {
    /// Starts perf-agent. Each of `--profile`, `--offcpu` and `--pmu` among the options gets an output of its own; the word
    /// `--wall-output` its path.
    ///
    /// # Errors
    /// If the command cannot be started.
    pub fn start(agent: &Path, options: &[&str], subject: Subject<'_>) -> Result<Self> {
        let folder = tempfile::tempdir().context("create a folder for the outputs")?;
        let at = folder.path();
        let mut command = Command::new(agent);
        for option in options {
            command.arg(option);
            match *option {
                "--profile" => command.arg("--profile-output").arg(output(at, option)),
                "--offcpu" => command.arg("--offcpu-output").arg(output(at, option)),
                "--wall-output" => command.arg(output(at, option)),
                "--heap=exact" | "--heap" => command.arg("--heap-output").arg(output(at, "--heap")),
                "--pmu" => command.args(["--pmu-format", "json", "--pmu-output"]).arg(output(at, option)),
                _ => &mut command,
            };
        }
        match subject {
            Subject::Process(pid) => command.args(["--pid", &pid.to_string()]),
            Subject::Machine => command.arg("-a"),
            Subject::Command(program, arguments) => command.arg("--").arg(program).args(arguments),
        };
        let create = |name: &str| File::create(at.join(name)).with_context(|| format!("create {name}"));
        // A group of its own: a command that outlives its session ends with it.
        command.stdin(Stdio::null()).stdout(create("stdout")?).stderr(create("stderr")?).process_group(0);
        let child = command.spawn().with_context(|| format!("start {}", agent.display()))?;
        Ok(Self { child, folder })
    }

    /// The process of perf-agent.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it captures, or has ended.
    ///
    /// # Errors
    /// If that takes longer than a minute.
    pub fn until_attached(&mut self) -> Result<()> {
        until_attached(&mut self.child)
    }

    /// Asks it to stop now and write what it has.
    ///
    /// # Errors
    /// If it cannot be signalled.
    pub fn stop(&self) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?).context("no process")?;
        kill_process(pid, Signal::TERM).context("stop perf-agent")
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// If it fails or does not end within ten minutes; its messages are in the error.
    pub fn finish(mut self) -> Result<Finished> {
        let log = self.folder.path().join("stderr");
        wait_ok(&mut self.child, "perf-agent", &log, PATIENCE)?;
        let read = |path: PathBuf| fs::read(&path).with_context(|| format!("read {}", path.display()));
        let lines = String::from_utf8_lossy(&read(self.folder.path().join("stdout"))?)
            .lines()
            .map(str::to_owned)
            .collect();
        let messages = String::from_utf8_lossy(&read(log)?).into_owned();
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().context("create a folder")?);
        Ok(Finished { folder, lines, messages })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It has ended already, except after an error.
        if matches!(self.child.try_wait(), Ok(None)) {
            let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
            if let Some(group) = group {
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
            }
            let _ = self.child.wait();
        }
    }
}

impl Finished {
    fn capture(&self, mode: &str) -> Result<Capture> {
        let path = output(self.folder.path(), mode);
        if !path.is_file() {
            bail!("perf-agent wrote no {}; its messages:\n{}", path.display(), self.messages);
        }
        read_pprof(&path)
    }

    /// The on-CPU profile.
    ///
    /// # Errors
    /// If it is missing or no profile.
    pub fn on_cpu(&self) -> Result<Capture> {
        self.capture("--profile")
    }

    /// The off-CPU profile.
    ///
    /// # Errors
    /// If it is missing or no profile.
    pub fn off_cpu(&self) -> Result<Capture> {
        self.capture("--offcpu")
    }

    /// The wall-clock profile.
    ///
    /// # Errors
    /// If it is missing or no profile.
    pub fn wall(&self) -> Result<Capture> {
        self.capture("--wall-output")
    }

    /// The profile of allocations.
    ///
    /// # Errors
    /// If it is missing or no profile.
    pub fn heap(&self) -> Result<Capture> {
        self.capture("--heap")
    }

    /// The report of scheduler metrics.
    ///
    /// # Errors
    /// If it is missing or no JSON.
    pub fn pmu(&self) -> Result<Value> {
        let path = output(self.folder.path(), "--pmu");
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("read {text} as JSON"))
    }
}
