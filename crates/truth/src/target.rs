//! A running known-answer program. It is ready when it is returned, and killed when it is dropped.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::programs::{Launch, Program};

/// A program with many threads takes long to start on a busy machine.
const READY_BY: Duration = Duration::from_secs(120);

/// The options of `unshare` for [`Launch::Namespaces`].
pub(crate) const NAMESPACES: [&str; 4] = ["--pid", "--mount-proc", "--fork", "--kill-child"];

/// A program that is ready.
#[derive(Debug)]
pub struct Target {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
    pid: u32,
    started: Instant,
    ready_after: Duration,
    _folder: Option<tempfile::TempDir>,
}

impl Target {
    /// Starts a program that was built in `out` and waits until it is ready.
    ///
    /// # Errors
    /// If it cannot be started, ends, or is not ready within two minutes.
    pub fn start(program: &Program, out: &Path) -> Result<Self> {
        let mut words: Vec<String> =
            program.command.iter().map(|w| w.replace("{out}", &out.display().to_string())).collect();
        let folder = match program.launch {
            Launch::Plain | Launch::Namespaces => None,
            Launch::CopiedProgram => Some(copy_aside(&mut words[0])?),
            Launch::CopiedArgument => Some(copy_aside(&mut words[1])?),
        };
        if program.launch == Launch::Namespaces {
            let unshare = ["unshare"].into_iter().chain(NAMESPACES).chain(["--"]);
            words.splice(0..0, unshare.map(str::to_owned));
        }
        let deleted = (program.launch == Launch::CopiedProgram).then(|| words[0].clone());
        let (target, _) = Self::spawn(Command::new(&words[0]).args(&words[1..]), folder, program.launch)
            .with_context(|| format!("start {}", words.join(" ")))?;
        if let Some(path) = deleted {
            fs::remove_file(&path).with_context(|| format!("remove {path}"))?;
        }
        Ok(target)
    }

    /// Starts any command that prints `ready`.
    ///
    /// # Errors
    /// As [`Target::start`].
    pub fn start_command(command: &mut Command) -> Result<Self> {
        Ok(Self::spawn(command, None, Launch::Plain)?.0)
    }

    /// Starts any command that prints `ready` after some lines of its own, and returns those.
    ///
    /// # Errors
    /// As [`Target::start`].
    pub fn start_after(command: &mut Command) -> Result<(Self, Vec<String>)> {
        Self::spawn(command, None, Launch::Plain)
    }

    fn spawn(
        command: &mut Command,
        folder: Option<tempfile::TempDir>,
        launch: Launch,
    ) -> Result<(Self, Vec<String>)> {
        let started = Instant::now();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("the program has no stdout")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(|line| line.ok()) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let pid = child.id();
        let mut target =
            Self { child, stdin, lines, pid, started, ready_after: Duration::ZERO, _folder: folder };
        let mut before = Vec::new();
        loop {
            match target.lines.recv_timeout(READY_BY) {
                Ok(line) if line == "ready" => break,
                Ok(line) => before.push(line),
                Err(_) => {
                    bail!("the program ended or was not ready within two minutes; it printed {before:?}")
                }
            }
        }
        target.ready_after = started.elapsed();
        if launch == Launch::Namespaces {
            target.pid = child_of(target.pid)?;
        }
        Ok((target, before))
    }

    /// The process to profile, as seen from here.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Time from the start of the process to its ready line.
    #[must_use]
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// Time since the start of the process.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Sends the line for which a waiting program waits before the measured part of its work.
    ///
    /// # Errors
    /// If the program is gone.
    pub fn go(&mut self) -> Result<()> {
        let stdin = self.stdin.as_mut().context("the program has no stdin")?;
        stdin.write_all(b"go\n").context("tell the program to go on")
    }

    /// CPU time that the process has used, user and system, all threads, in ns; ticks of 10 ms.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn cpu_ns(&self) -> Result<u64> {
        cpu_ns(self.pid)
    }

    /// The lines that the program printed since the last call.
    #[must_use]
    pub fn pending_lines(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    /// Waits for the program to end by itself and collects the lines that it prints until then.
    #[must_use]
    pub fn lines_to_end(self) -> Vec<String> {
        self.lines.iter().collect()
    }

    /// The lines that the program prints up to this one.
    ///
    /// # Errors
    /// If it does not come within two minutes.
    pub fn lines_until(&self, last: &str) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            match self.lines.recv_timeout(READY_BY) {
                Ok(line) if line == last => return Ok(lines),
                Ok(line) => lines.push(line),
                Err(_) => bail!("the program did not print {last}; it printed {lines:?}"),
            }
        }
    }

    /// Asks the program to end by SIGTERM and collects the lines that it still prints.
    ///
    /// # Errors
    /// If it cannot be signalled.
    pub fn finish(mut self) -> Result<Vec<String>> {
        if let Some(pid) = Pid::from_raw(i32::try_from(self.pid)?) {
            kill_process(pid, Signal::TERM).context("end the program")?;
        }
        let lines = self.lines.iter().collect();
        self.child.wait().context("wait for the program")?;
        Ok(lines)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // Both may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(format!("/tmp/perf-{}.map", self.pid));
    }
}

/// CPU time of a process in ns, user and system, in ticks of 10 ms.
///
/// # Errors
/// If the process is gone.
pub fn cpu_ns(pid: u32) -> Result<u64> {
    let stat =
        fs::read_to_string(format!("/proc/{pid}/stat")).with_context(|| format!("read times of {pid}"))?;
    let fields = stat.rsplit_once(") ").context("malformed stat")?.1.split(' ');
    let ticks: u64 = fields.skip(11).take(2).filter_map(|f| f.parse::<u64>().ok()).sum();
    Ok(ticks * 10_000_000)
}

/// Memory of a process in KiB by a line of its status: `VmRSS` now, `VmHWM` at most so far. None if it is gone.
#[must_use]
pub fn memory_kib(pid: u32, line: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = status.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(':'))?;
    value.trim().strip_suffix(" kB")?.trim().parse().ok()
}

fn copy_aside(path: &mut String) -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir().context("create a folder")?;
    let name = Path::new(path.as_str()).file_name().context("a path without a name")?;
    let copy = folder.path().join(name);
    fs::copy(path.as_str(), &copy).with_context(|| format!("copy {path}"))?;
    *path = copy.display().to_string();
    Ok(folder)
}

fn child_of(parent: u32) -> Result<u32> {
    for entry in fs::read_dir("/proc").context("list processes")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let ppid = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<u32>().ok());
        if ppid == Some(parent) {
            return Ok(pid);
        }
    }
    bail!("process {parent} has no child")
}
