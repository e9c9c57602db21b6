//! Profiles of events with known answers: the number of page faults and switches in each function of a program.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod probes;
mod several;
mod siblings;
mod values;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use perfagent::{Agent, AgentBuilder, Error, Mode, Recording, Report};
use testkit::Process;

use crate::started::{is_refusal, started};

const SOURCE: &str = include_str!("causes.c");
/// Faults in the functions of the program.
const IN_ONE: u64 = 3000;
const IN_OTHER: u64 = 1000;
const IN_KERNEL: u64 = 500;

/// A capture of the whole work of the program, and its number of switches; none if it is not possible here.
fn captured(configure: impl FnOnce(AgentBuilder) -> AgentBuilder) -> Option<(Report, u64)> {
    captured_of(SOURCE, &[], |builder, _| configure(builder))
}

/// The same of another program, and the number that it prints. The configuration depends on its path.
pub(crate) fn captured_of(
    source: &str,
    flags: &[String],
    configure: impl FnOnce(AgentBuilder, &Path) -> AgentBuilder,
) -> Option<(Report, u64)> {
    let folder = tempfile::tempdir().unwrap();
    let path = compiled(folder.path(), source, flags)?;
    let mut program =
        Process::start(Command::new(&path).stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap();
    let agent = configure(Agent::builder().pid(program.pid()).with_cpu_profile(), &path).build().unwrap();
    if !started(&agent) {
        return None;
    }
    program.stdin.take().unwrap().write_all(b"\n").unwrap();
    let line = program.first_line();
    Some((agent.stop().unwrap(), line.parse().unwrap()))
}

/// A program, compiled; none without a compiler.
pub(crate) fn compiled(folder: &Path, text: &str, flags: &[String]) -> Option<std::path::PathBuf> {
    let compiler = testkit::needed("cc")?;
    let (source, program) = (folder.join("causes.c"), folder.join("causes"));
    std::fs::write(&source, text).unwrap();
    let arguments = ["-O1", "-fomit-frame-pointer", "-o"];
    assert!(
        Command::new(compiler)
            .args(arguments)
            .arg(&program)
            .args(flags)
            .arg(&source)
            .status()
            .unwrap()
            .success()
    );
    Some(program)
}

/// The profile of the event as folded stacks.
fn folded(recording: &Recording) -> Vec<(String, u64)> {
    folded_of(recording, Mode::Event)
}

/// The profile of a mode as folded stacks.
fn folded_of(recording: &Recording, mode: Mode) -> Vec<(String, u64)> {
    let mut text = Vec::new();
    recording.encode_profile(mode, "folded", &mut text).unwrap();
    let lines = String::from_utf8(text).unwrap();
    let line = |line: &str| {
        let (stack, value) = line.rsplit_once(' ').unwrap();
        (stack.to_owned(), value.parse().unwrap())
    };
    lines.lines().map(line).collect()
}

/// The sum of the stacks that go from the start of the program to the end given.
fn rooted(stacks: &[(String, u64)], end: &str) -> u64 {
    let is_meant = |stack: &str| stack.starts_with("_start;") && stack.contains(&format!(";main;{end}"));
    stacks.iter().filter(|(stack, _)| is_meant(stack)).map(|(_, value)| value).sum()
}

/// Whether all events are there. Those that happen while a preempted thread changes a map of BPF on their CPU are not seen: they are counted,
/// if a CPU has more than two of them.
fn is_all(found: u64, expected: u64, report: &Report) -> bool {
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    let unseen = report.ledger(Mode::Event).unwrap().not_run + 2 * cpus;
    (expected.saturating_sub(unseen)..=expected).contains(&found)
}

#[test]
fn each_page_fault_counts_once_with_its_whole_stack() {
    let Some((report, _)) = captured(|builder| builder.event("page-faults")) else { return };
    let stacks = folded(report.recording());
    for (end, faults) in [("one;touch", IN_ONE), ("other;touch", IN_OTHER), ("in_kernel", IN_KERNEL)] {
        assert!(is_all(rooted(&stacks, end), faults, &report), "{end}: {stacks:?}");
    }
    let ledger = report.ledger(Mode::Event).unwrap();
    let all: u64 = stacks.iter().map(|(_, value)| value).sum();
    assert_eq!((ledger.samples, ledger.lost()), (all, 0));
    let profile = report.cpu_profile().unwrap();
    let types: Vec<_> = profile.sample_types.iter().map(|of| (&*of.kind, &*of.unit)).collect();
    assert_eq!(types, [("samples", "count"), ("page-faults", "count")]);
    assert_eq!((&*profile.period_type.kind, profile.period), ("page-faults", 1));
    for comment in ["perf-agent.mode=event", "perf-agent.event=software/page-faults", "perf-agent.period=1"] {
        assert!(profile.comments.iter().any(|one| one == comment), "{:?}", profile.comments);
    }
    assert!(!profile.comments.iter().any(|one| one.starts_with("perf-agent.rate_hz")));
}

#[test]
fn a_sample_of_each_nth_fault_stands_for_n() {
    const N: u64 = 8;
    let Some((report, _)) = captured(|builder| builder.event("page-faults period=8")) else { return };
    let stacks = folded(report.recording());
    let found: u64 = ["one;touch", "other;touch", "in_kernel"].map(|end| rooted(&stacks, end)).iter().sum();
    let faults = IN_ONE + IN_OTHER + IN_KERNEL;
    // Each CPU counts by itself, the faults of all processes.
    assert_eq!(found % N, 0, "{stacks:?}");
    assert!(found.abs_diff(faults) <= faults / 4, "{found} of {faults}: {stacks:?}");
}

#[test]
fn each_switch_counts_beside_the_off_cpu_profile() {
    let both = |builder: AgentBuilder| builder.event("context-switches").with_off_cpu_profile();
    let Some((report, switches)) = captured(both) else { return };
    let found = rooted(&folded(report.recording()), "sleeper");
    // Two may happen before and after the program counts.
    assert!(is_all(found, switches + 2, &report), "{found} of {switches}");
    let waits = report.ledger(Mode::OffCpu).unwrap().samples;
    assert!(waits >= switches / 2, "{waits} waits at {switches} switches");
    assert_eq!(report.ledger(Mode::Event).unwrap().lost(), 0);
}

/// Whether this kernel has the tracepoint.
fn has_tracepoint(path: &str) -> bool {
    let roots = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    roots.iter().any(|root| Path::new(root).join("events").join(path).is_dir())
}

#[test]
fn each_call_and_each_switch_counts_at_its_tracepoint() {
    if !has_tracepoint("syscalls/sys_enter_read") {
        testkit::skip!("the kernel has no tracepoints of system calls here");
    }
    let read =
        |builder: AgentBuilder| builder.event("tracepoint:syscalls:sys_enter_read").kernel_stacks(true);
    let Some((report, _)) = captured(read) else { return };
    let found = rooted(&folded(report.recording()), "in_kernel;");
    assert!(is_all(found, IN_KERNEL, &report), "{found}");
    let ledger = report.ledger(Mode::Event).unwrap();
    assert_eq!((ledger.event.as_str(), ledger.lost()), ("syscalls:sys_enter_read", 0));

    let Some((report, switches)) = captured(|builder| builder.event("sched:sched_switch")) else { return };
    let found = rooted(&folded(report.recording()), "sleeper");
    // Two may happen before and after the program counts.
    assert!(is_all(found, switches + 2, &report), "{found} of {switches}");
}

#[test]
fn only_events_of_targets_count_to_the_nth_of_a_tracepoint() {
    const N: u64 = 7;
    if !has_tracepoint("syscalls/sys_enter_read") {
        testkit::skip!("the kernel has no tracepoints of system calls here");
    }
    let each_seventh = |builder: AgentBuilder| builder.event("syscalls:sys_enter_read period=7");
    let Some((report, _)) = captured(each_seventh) else { return };
    let found = rooted(&folded(report.recording()), "in_kernel;");
    // Each CPU counts by itself, also the few calls elsewhere in the program.
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    assert!(found.is_multiple_of(N) && found.abs_diff(IN_KERNEL) <= N * (cpus + 1), "{found}");
}

#[test]
fn a_tracepoint_that_is_not_there_is_refused_with_its_neighbours() {
    if !has_tracepoint("sched/sched_switch") {
        testkit::skip!("the kernel has no tracepoints of the scheduler here");
    }
    let builder = Agent::builder().pid(std::process::id()).with_cpu_profile().event("sched:sched_swich");
    match builder.build().unwrap().start().unwrap_err() {
        error if is_refusal(&error) => {}
        error => {
            assert!(matches!(error, Error::InvalidConfig { .. }), "{error}");
            assert!(error.to_string().contains("sched:sched_swich"), "{error}");
            assert!(error.hint().unwrap().contains("sched_switch"), "{:?}", error.hint());
        }
    }
}

#[test]
fn an_event_that_the_machine_does_not_count_is_refused_with_what_it_needs() {
    let agent = Agent::builder().pid(std::process::id()).with_cpu_profile().event("cycles").build().unwrap();
    match agent.start() {
        Ok(()) => drop(agent.stop()),
        Err(error) if !matches!(error, Error::Unsupported { .. }) && is_refusal(&error) => {}
        Err(error) => {
            let message = error.to_string();
            assert!(matches!(error, Error::Unsupported { .. }), "{message}");
            assert!(message.contains("hardware/cycles") && message.contains("task-clock"), "{message}");
        }
    }
}
