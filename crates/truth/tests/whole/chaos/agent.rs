//! One agent: its start, the moment of its end, and its end.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testkit::{PATIENCE, Process};
use truth::leftovers::BpfObjects;

use super::leftovers::{Ended, all_processes};
use super::random::Random;
use super::targets::Targets;
use crate::Setup;

/// How an agent ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    ByItself,
    Interrupted,
    Terminated,
    Killed,
}

/// What an agent profiles.
#[derive(Debug)]
pub(super) enum Subject {
    Machine,
    Processes(Vec<u32>),
}

/// An agent at work.
pub(super) struct Agent {
    process: Process,
    folder: tempfile::TempDir,
    held: BpfObjects,
    others: BTreeSet<u32>,
    end: End,
    is_handling: bool,
}

/// Whether a process catches this signal.
fn handles(pid: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0").trim();
    u64::from_str_radix(caught, 16).unwrap() & (1 << (signal.as_raw() - 1)) != 0
}

/// Whether all threads of a process stand still.
fn is_stopped(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let state = |path: &Path| {
        let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
    };
    threads.map(|thread| state(&thread.path())).all(|state| matches!(state, Some('T' | 'Z' | 'X') | None))
}

impl Agent {
    pub(super) fn start(
        setup: &Setup,
        mode: &[&str],
        subject: &Subject,
        end: End,
        random: &mut Random,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let outputs = folder.path().join("outputs");
        fs::create_dir(&outputs).unwrap();
        let mut command = Command::new(&setup.agent);
        command.args(mode).args(["--sample-rate", "997"]);
        for (option, name) in [("--profile", "on.pb.gz"), ("--offcpu", "off.pb.gz")] {
            if mode.contains(&option) {
                command.arg(format!("{option}-output")).arg(outputs.join(name));
            }
        }
        match subject {
            Subject::Machine => command.arg("-a"),
            Subject::Processes(pids) => {
                command.args(pids.iter().flat_map(|pid| ["--pid".to_owned(), pid.to_string()]))
            }
        };
        let length = match end {
            End::ByItself => Duration::from_millis(100) + random.time(Duration::from_millis(500)),
            _ => Duration::from_secs(600),
        };
        command.args(["--duration", &format!("{}ms", length.as_millis())]);
        // Beside the outputs nothing may be left; a cache is for the next agent.
        command.current_dir(&outputs).env("TMPDIR", &outputs).env("XDG_CACHE_HOME", setup.out.join("cache"));
        // Whatever it starts is in its group.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(folder.path().join("messages")).unwrap());
        let others = all_processes();
        let process = Process::start(&mut command).unwrap();
        Self { process, folder, held: BpfObjects::default(), others, end, is_handling: false }
    }

    fn look(&mut self) {
        self.held.add(BpfObjects::held_by(self.process.pid()));
    }

    fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    /// Lets time pass, during which targets may die, until the agent shall end. Returns the numbers of processes that were killed.
    pub(super) fn watch(&mut self, targets: &mut Targets, random: &mut Random) -> BTreeSet<u32> {
        let begun = Instant::now();
        // Some ends come while the agent starts, others while it captures.
        let is_to_capture = random.one_of(3) > 0;
        let rest = random.time(Duration::from_millis(400));
        let mut death = (random.one_of(3) == 0).then(|| random.time(Duration::from_millis(300)));
        let (mut deaths, mut captures_since) = (BTreeSet::new(), None);
        while !self.has_ended() {
            self.look();
            if death.is_some_and(|time| begun.elapsed() > time) {
                deaths.insert(targets.replace_one(random));
                death = None;
            }
            // Off-CPU profiles have links instead of a sampler.
            let is_attached = !self.held.links.is_empty() || testkit::has_sampler(self.process.pid());
            if captures_since.is_none() && is_attached {
                captures_since = Some(Instant::now());
            }
            let since = if is_to_capture { captures_since } else { Some(begun) };
            if self.end != End::ByItself && since.is_some_and(|since| since.elapsed() > rest) {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "no end: {}", self.messages());
            std::thread::sleep(Duration::from_millis(3));
        }
        deaths
    }

    fn messages(&self) -> String {
        fs::read_to_string(self.folder.path().join("messages")).unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.process.pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Ends it in its way, and fails if its exit status is not the right one.
    pub(super) fn end(mut self, what: &str, subject: &Subject, deaths: &BTreeSet<u32>) -> Ended {
        let pid = self.process.pid();
        let end = if self.has_ended() { End::ByItself } else { self.end };
        let signal = match end {
            End::ByItself => None,
            End::Interrupted => Some(Signal::INT),
            End::Terminated => Some(Signal::TERM),
            End::Killed => {
                // What it holds at its last moment is known.
                self.signal(Signal::STOP);
                testkit::until("the agent stands still", || is_stopped(pid));
                self.look();
                Some(Signal::KILL)
            }
        };
        if let Some(signal) = signal {
            self.is_handling = handles(pid, signal);
            self.signal(signal);
        }
        testkit::until(&format!("the end of {what}"), || {
            self.look();
            self.has_ended()
        });
        let status = self.process.wait().unwrap();
        let is_complete = self.check_status(status, signal, subject, deaths, what);
        Ended { pid, folder: self.folder, held: self.held, others: self.others, is_complete }
    }

    /// Whether it ended with its outputs.
    fn check_status(
        &self,
        status: ExitStatus,
        signal: Option<Signal>,
        subject: &Subject,
        deaths: &BTreeSet<u32>,
        what: &str,
    ) -> bool {
        let messages = self.messages();
        assert!(!messages.contains("panicked"), "{what}: {messages}");
        if status.success() {
            return true;
        }
        let is_killed = signal == Some(Signal::KILL);
        // Before main it handles no signal.
        let is_early = signal.is_some() && !self.is_handling && status.code().is_none();
        // A target that is gone before the capture begins is an error that names it.
        let is_gone = match subject {
            Subject::Machine => false,
            Subject::Processes(pids) => pids.iter().any(|pid| {
                deaths.contains(pid) && messages.contains("error:") && messages.contains(&pid.to_string())
            }),
        };
        assert!(is_killed || is_early || is_gone, "{what}: {status}: {messages}");
        false
    }
}
