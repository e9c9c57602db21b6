//! Captures of programs in Python, as lines of text.

use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use perfagent::{Agent, Mode, PythonFrames, Recording};
use recording::{Frame, PythonCounter, State};
use testkit::{Lines, PerfMap, Process};

use crate::started::started;

/// The program.
pub const PROGRAM: &str = include_str!("program.py");

/// Stacks that a capture takes at least.
const STACKS: u64 = 300;

/// The programs keep all CPUs busy, so there is one at a time: a test beside these has a CPU of its own.
static BUSY: Mutex<()> = Mutex::new(());

pub fn alone() -> MutexGuard<'static, ()> {
    BUSY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until a capture has enough stacks, however busy the machine is.
fn wait_for_stacks(agent: &Agent, frames: PythonFrames) {
    testkit::until("a capture has enough stacks", || {
        let ledger = agent.ledger();
        let walked = ledger.python_walks[PythonCounter::Root as usize];
        STACKS <= if frames == PythonFrames::Off { ledger.samples } else { walked }
    });
}

/// A frame as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub is_python: bool,
    pub name: String,
    pub line: u32,
}

/// One stack of one task.
#[derive(Clone, Debug)]
pub struct Captured {
    pub pid: u32,
    /// With `per_thread`.
    pub tid: u32,
    /// Leaf first.
    pub lines: Vec<Line>,
    pub count: u64,
}

impl Captured {
    /// The functions in Python, outermost first.
    pub fn python(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().rev().filter(|line| line.is_python)
    }

    /// Whether a frame is the interpreter's own.
    pub fn has_evaluator(&self) -> bool {
        self.lines.iter().any(|line| line.name.contains("_PyEval_EvalFrameDefault"))
    }
}

/// What was captured.
pub struct Stacks {
    pub all: Vec<Captured>,
    /// What the ledger says about Python.
    pub ledger: Vec<(String, String)>,
}

/// Profiles the program for a while. None: captures are not possible here.
pub fn capture(python: Command, what: &str, frames: PythonFrames) -> Option<Stacks> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program.py");
    std::fs::write(&file, PROGRAM).unwrap();
    let mut command = python;
    command.arg(&file).arg(what);
    profile(command, frames, Mode::OnCpu)
}

/// Profiles the program for a while when it has begun, and as many children, which are targets too. None: captures are not possible here.
pub fn capture_running(
    mut python: Command,
    what: &str,
    children: usize,
    frames: PythonFrames,
) -> Option<Stacks> {
    let _alone = alone();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), PROGRAM).unwrap();
    let command = python.arg(file.path()).arg(what).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = Process::start(command).unwrap();
    let output = Lines::of(process.stdout.take().unwrap());
    assert_eq!(output.next(), "ready");
    let of_process = format!("/proc/{0}/task/{0}/children", process.pid());
    let mut pids = vec![process.pid()];
    testkit::until("its children are there", || {
        let told = std::fs::read_to_string(&of_process).unwrap();
        pids.truncate(1);
        pids.extend(told.split_whitespace().map(|pid| pid.parse::<u32>().unwrap()));
        pids.len() > children
    });
    let builder = Agent::builder().pids(pids).sample_rate(499).python(frames);
    let agent = builder.per_thread(true).with_cpu_profile().build().unwrap();
    if !started(&agent) {
        return None;
    }
    wait_for_stacks(&agent, frames);
    Some(stacks(agent.stop().unwrap().recording(), Mode::OnCpu))
}

/// Records the waits of a program that says that it is ready, when `sleeps` is true of it, alone or with all others of the machine. None:
/// captures are not possible here.
pub fn capture_asleep(
    mut python: Command,
    with_others: bool,
    mut sleeps: impl FnMut(u32) -> bool,
) -> Option<Stacks> {
    let mut process = Process::start(python.stdin(Stdio::null()).stdout(Stdio::piped())).unwrap();
    let output = Lines::of(process.stdout.take().unwrap());
    assert_eq!(output.next(), "ready");
    testkit::until("the program sleeps", || sleeps(process.pid()));
    let builder =
        if with_others { Agent::builder().system_wide() } else { Agent::builder().pid(process.pid()) };
    let agent = builder.with_off_cpu_profile().build().unwrap();
    if !started(&agent) {
        return None;
    }
    agent.wait(Duration::from_millis(300));
    let mut stacks = stacks(agent.stop().unwrap().recording(), Mode::OffCpu);
    stacks.all.retain(|stack| stack.pid == process.pid());
    Some(stacks)
}

/// Profiles a command for a while, on CPUs or off them.
pub fn profile(mut command: Command, frames: PythonFrames, mode: Mode) -> Option<Stacks> {
    let _alone = alone();
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let builder = Agent::builder().command(command).sample_rate(499).python(frames).per_thread(true);
    let builder =
        if mode == Mode::OnCpu { builder.with_cpu_profile() } else { builder.with_off_cpu_profile() };
    let agent = builder.build().unwrap();
    if !started(&agent) {
        return None;
    }
    let child = agent.child().unwrap();
    // Of an interpreter with trampolines.
    let _map = PerfMap::of(child.id());
    wait_for_stacks(&agent, frames);
    let report = agent.stop().unwrap();
    child.kill().unwrap();
    Some(stacks(report.recording(), mode))
}

/// The stacks of a recording, and what its ledger says about Python.
pub fn stacks(recording: &Recording, mode: Mode) -> Stacks {
    let of_python = |(key, _): &&(String, String)| key.starts_with("python.");
    let ledger = recording.ledger(mode).iter().filter(of_python).cloned().collect();
    let states: &[State] = if mode == Mode::OnCpu { &[State::Sampled] } else { &[State::Blocked] };
    Stacks { all: stacks_of(recording, states), ledger }
}

fn stacks_of(recording: &Recording, states: &[State]) -> Vec<Captured> {
    let (model, names) = (&recording.model().recording, &recording.model().names);
    let line = |id: &recording::FrameId| {
        let is_python = matches!(model.frame(*id), Some(Frame::Interpreted { .. }));
        let first = names.of(*id).next();
        let (name, line) = first.map_or((String::new(), 0), |line| (line.name.to_owned(), line.line));
        Line { is_python, name, line }
    };
    let mut all = Vec::new();
    for count in &model.counts {
        let at = model.task_stack(count.stack).unwrap();
        let task = model.task(at.task).unwrap();
        if states.contains(&at.state) {
            let stack = model.stack(at.stack).unwrap();
            all.push(Captured {
                pid: task.pid.unwrap_or(0),
                tid: task.thread.as_ref().map_or(0, |thread| thread.tid),
                lines: stack.frames.iter().map(line).collect(),
                count: count.value(0),
            });
        }
    }
    all
}
