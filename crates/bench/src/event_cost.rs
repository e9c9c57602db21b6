//! What a profile of events costs the program that causes them, beside bpftrace's `@[ustack] = count()`: the program's own CPU time for
//! each event, in alternating windows, less that without a profiler. The program has frame pointers, so that bpftrace's stacks are whole.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use testkit::find_command;
use truth::compile::{Build, Compiler};
use truth::profiler::read_pprof;
use truth::programs::sources;
use truth::target::Target;

use crate::cost::{bind, last_cpu};
use crate::statistics::quantile;
use crate::tool::interrupt;
use crate::window::cpu_window;

/// Time for a profiler to attach before a window begins.
const SETTLE: Duration = Duration::from_millis(2500);
/// The root of every stack.
const ROOT: &str = "main";

/// A kind of events that the program can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Calls of a function with a uprobe.
    Call,
    /// Page faults.
    Fault,
    /// System calls, by the tracepoint `raw_syscalls:sys_enter`.
    Syscall,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Call, Self::Fault, Self::Syscall];

    /// The argument of the program.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Fault => "fault",
            Self::Syscall => "syscall",
        }
    }

    fn event(self, program: &Path) -> String {
        match self {
            Self::Call => format!("uprobe:{}:work", program.display()),
            Self::Fault => "page-faults".to_owned(),
            Self::Syscall => "raw_syscalls:sys_enter".to_owned(),
        }
    }

    fn script(self, program: &Path, pid: u32) -> String {
        let probe = match self {
            Self::Call => format!("uprobe:{}:work", program.display()),
            Self::Fault => "software:page-faults:1".to_owned(),
            Self::Syscall => "tracepoint:raw_syscalls:sys_enter".to_owned(),
        };
        format!("{probe} /pid == {pid}/ {{ @[ustack] = count(); }}")
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct EventCost {
    /// Which events.
    pub kind: Kind,
    /// Calls of the recursion above the place.
    pub frames: usize,
    /// CPU time of the program for an event without a profiler, in ns.
    pub alone_ns: f64,
    /// What perf-agent adds to each, in ns.
    pub agent_ns: f64,
    /// What bpftrace adds to each, in ns. None: it is not installed.
    pub bpftrace_ns: Option<f64>,
    /// Of the events in perf-agent's profile, the share whose stack reaches `main`.
    pub rooted: f64,
}

/// Measures one kind of events: `rounds` rounds, in each a window with each profiler between two without; medians.
///
/// # Errors
/// Without root or gcc, or if a profiler fails.
pub fn measure(
    out: &Path,
    agent: &Path,
    (kind, frames): (Kind, usize),
    rounds: usize,
    seconds: f64,
) -> Result<EventCost> {
    let program = Build::new("eventful", Compiler::Gcc, "eventful.c", "-O2 -fno-omit-frame-pointer")
        .run(&sources(), out)?;
    let program = program.canonicalize().context("the path of the program")?;
    let mut command = Command::new(&program);
    let target = Target::start_command(command.args([kind.name(), &frames.to_string()]))?;
    bind(target.pid(), last_cpu()?)?;
    let has_bpftrace = find_command("bpftrace").is_some();
    let (mut alone, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut all, mut rooted) = (0, 0);
    let mut before = cpu_window(&target, seconds)?;
    for _ in 0..rounds {
        let folder = tempfile::tempdir().context("create a folder for the profile")?;
        let file = folder.path().join("events.pb.gz");
        let mut profiler = start_agent(agent, &kind.event(&program), target.pid(), &file)?;
        let with = attached_window(&target, &mut profiler, "perf-agent", seconds)?;
        for stack in read_pprof(&file)?.stacks {
            all += stack.count;
            rooted += if stack.has(ROOT) { stack.count } else { 0 };
        }
        let after = cpu_window(&target, seconds)?;
        ours.push(with - (before + after) / 2.0);
        alone.push(after);
        before = after;
        if has_bpftrace {
            let mut profiler = start_bpftrace(&kind.script(&program, target.pid()))?;
            let with = attached_window(&target, &mut profiler, "bpftrace", seconds)?;
            let after = cpu_window(&target, seconds)?;
            theirs.push(with - (before + after) / 2.0);
            before = after;
        }
    }
    ensure!(all > 0, "the profile of {} is empty", kind.name());
    Ok(EventCost {
        kind,
        frames,
        alone_ns: quantile(&mut alone, 0.5),
        agent_ns: quantile(&mut ours, 0.5),
        bpftrace_ns: has_bpftrace.then(|| quantile(&mut theirs, 0.5)),
        rooted: rooted as f64 / all as f64,
    })
}

/// CPU time per event while a profiler is attached; it is ended after that.
fn attached_window(target: &Target, profiler: &mut Child, name: &str, seconds: f64) -> Result<f64> {
    thread::sleep(SETTLE);
    let ended = profiler.try_wait().with_context(|| format!("wait for {name}"))?;
    ensure!(ended.is_none(), "{name} ended by itself: {ended:?}");
    let ns = cpu_window(target, seconds)?;
    interrupt(profiler, name)?;
    Ok(ns)
}

fn start_agent(agent: &Path, event: &str, pid: u32, file: &Path) -> Result<Child> {
    let mut command = Command::new(agent);
    command.args(["--profile", "--event", event, "--pid", &pid.to_string(), "--profile-output"]).arg(file);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().with_context(|| format!("start {}", agent.display()))
}

fn start_bpftrace(script: &str) -> Result<Child> {
    let mut command = Command::new("bpftrace");
    command.args(["-e", script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().context("start bpftrace")
}
