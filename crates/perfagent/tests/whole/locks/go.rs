//! Waits of goroutines, against Go's own profile of the same waits.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use perfagent::{Agent, LockClass, LockRow, WarningKind};
use testkit::Process;

use crate::started::started;

const SOURCE: &str = include_str!("contention.go");
const PING: &str = include_str!("ping.go");
const ROUNDS: u64 = 100;
/// The functions in which the program waits, with the kind of lock.
const PLACES: [(&str, LockClass); 7] = [
    ("main.waitForMutex", LockClass::Mutex),
    ("main.waitToRead", LockClass::ReadWrite),
    ("main.waitForGroup", LockClass::WaitGroup),
    ("main.waitForSignal", LockClass::Condition),
    ("main.receive", LockClass::Channel),
    ("main.send", LockClass::Channel),
    ("main.choose", LockClass::Select),
];

fn built(folder: &Path, source: &str, flags: &str) -> Option<PathBuf> {
    let go = testkit::needed("go")?;
    std::fs::write(folder.join("contention.go"), source).unwrap();
    let mut command = Command::new(go);
    command.current_dir(folder).env("GO111MODULE", "off");
    command.args(["build", "-ldflags", flags, "-o", "contention", "contention.go"]);
    assert!(command.status().unwrap().success());
    Some(folder.join("contention"))
}

/// Contentions and their delay by function, as Go counts them.
fn of_go(profile: &Path) -> HashMap<String, (u64, u64)> {
    let profile = formats::pprof::decode(&std::fs::read(profile).unwrap()).unwrap();
    let mut sums: HashMap<String, (u64, u64)> = HashMap::new();
    for sample in &profile.samples {
        let lines = sample.locations.iter().flat_map(|id| &profile.locations[id.0 as usize].lines);
        let names: Vec<_> =
            lines.map(|line| profile.functions[line.function.0 as usize].name.clone()).collect();
        for (place, _) in PLACES.iter().filter(|(place, _)| names.iter().any(|name| name == place)) {
            let sum = sums.entry((*place).to_owned()).or_default();
            *sum = (sum.0 + sample.values[0] as u64, sum.1 + sample.values[1] as u64);
        }
    }
    sums
}

/// How long the threads of a process were ready to run and had no CPU, in ns.
fn waited_for_cpu_ns(pid: u32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let figures = |path| std::fs::read_to_string(path).unwrap_or_default();
    let waited = |text: String| text.split(' ').nth(1).and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
    threads.map(|thread| waited(figures(thread.path().join("schedstat")))).sum()
}

fn compare(flags: &str) {
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = built(folder.path(), SOURCE, flags) else { return };
    let profile = folder.path().join("block.pb.gz");
    let mut program =
        Process::start(Command::new(&path).arg(&profile).stdin(Stdio::piped()).stdout(Stdio::piped()))
            .unwrap();
    let agent = Agent::builder().pid(program.pid()).with_locks().build().unwrap();
    if !started(&agent) {
        return;
    }
    program.stdin.take().unwrap().write_all(b"\n").unwrap();
    program.first_line();
    let preempted_ns = waited_for_cpu_ns(program.pid());
    let report = agent.stop().unwrap();
    let locks = report.recording().locks().unwrap();
    let rows: Vec<&LockRow> = locks.held.iter().chain(&locks.others).collect();
    let of_go = of_go(&profile);
    let mut of_mutex = 0;
    for (place, class) in PLACES {
        let of_class = rows.iter().filter(|row| row.class == class);
        let waiters = of_class.flat_map(|row| &row.waiters);
        let here = waiters.filter(|waiter| waiter.functions.first().is_some_and(|first| first == place));
        let (waits, time_ns) =
            here.fold((0, 0), |sums, waiter| (sums.0 + waiter.waits, sums.1 + waiter.time_ns));
        let (contentions, delay_ns) = of_go[place];
        assert_eq!(waits, contentions, "{place}: {rows:#?}");
        // A goroutine that came late found its lock free.
        assert!((ROUNDS * 9 / 10..=ROUNDS).contains(&waits), "{place}: {waits}");
        of_mutex = if place == "main.waitForMutex" { waits } else { of_mutex };
        // Each wait was 2 ms long at least; the probes themselves are in both. A thread that loses its CPU between the clock of the probe
        // and that of Go adds the time to one of the two.
        let apart_ns = delay_ns / 50 + preempted_ns;
        assert!(
            time_ns.abs_diff(delay_ns) <= apart_ns,
            "{place}: {time_ns} ns, {delay_ns} ns by Go, {preempted_ns} ns without a CPU"
        );
    }
    let mutex = rows.iter().find(|row| row.name.starts_with("main.mu"));
    // Without a symbol table variables have no names.
    let mutex = mutex.or_else(|| rows.iter().find(|row| row.class == LockClass::Mutex)).unwrap();
    let by_holder = mutex.wakers.iter().filter(|waker| waker.functions[0] == "main.releaseMutex");
    assert_eq!(by_holder.map(|waker| waker.waits).sum::<u64>(), of_mutex, "{mutex:#?}");
    let has_failed = report.warnings.iter().any(|warning| warning.kind == WarningKind::Capture);
    assert!(!has_failed, "{:?}", report.warnings);
}

#[test]
fn waits_of_goroutines_are_those_of_gos_own_profile() {
    compare("");
}

#[test]
fn waits_of_goroutines_are_seen_in_a_stripped_program() {
    compare("-s -w");
}

#[test]
fn waits_of_goroutines_are_recorded_no_longer_than_they_are_cheap() {
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = built(folder.path(), PING, "") else { return };
    let mut program =
        Process::start(Command::new(&path).stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap();
    let agent = Agent::builder().pid(program.pid()).with_locks().build().unwrap();
    if !started(&agent) {
        return;
    }
    program.stdin.take().unwrap().write_all(b"\n").unwrap();
    program.first_line();
    let report = agent.stop().unwrap();
    let is_told = |warning: &perfagent::Warning| warning.message.contains("following the goroutines");
    assert_eq!(report.warnings.iter().filter(|warning| is_told(warning)).count(), 1, "{:?}", report.warnings);
    let locks = report.recording().locks().unwrap();
    let waits: u64 =
        locks.others.iter().filter(|row| row.class == LockClass::Channel).map(|row| row.waits).sum();
    // Two of each round, if all were recorded. 50 ms are some 10,000.
    assert!((1_000..400_000).contains(&waits), "{waits}");
}
