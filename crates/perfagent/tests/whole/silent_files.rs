//! Captures of targets whose files lie on a file system that does not answer.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use perfagent::{Agent, MemorySink, Mode};
use testkit::Process;

use crate::silent_fs::SilentFs;
use crate::started::started;

const RATE: u32 = 199;
/// How long the capture goes on; the program that is executed meanwhile starts after half of it.
const CAPTURE: Duration = Duration::from_secs(3);
/// More than beginning and ending take, and far less than the file system does.
const SOON: Duration = Duration::from_secs(8);
const LOOP: &str = "while :; do :; done";

fn running(program: &str, script: &str) -> Process {
    let mut command = Command::new(program);
    Process::start(command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null())).unwrap()
}

/// How long a process has run, from `/proc/PID/schedstat`.
fn cpu_time(pid: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// Runs a body on a thread of its own, and fails if that takes too long.
fn within<T: Send + 'static>(limit: Duration, body: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || done.send(body()));
    ended.recv_timeout(limit).expect("it goes on in spite of a file system that does not answer")
}

#[test]
fn a_file_system_that_does_not_answer_holds_nothing_up() {
    let shell = std::fs::read("/bin/sh").unwrap();
    let fs = match SilentFs::mount(shell) {
        Ok(fs) => fs,
        Err(error) => testkit::skip!("no file system in user space: {error}"),
    };
    let program = fs.program().into_os_string().into_string().unwrap();
    let there = running(&program, LOOP);
    let other = running("/bin/sh", LOOP);
    let script = format!("sleep 1.5; exec {program} -c '{LOOP}'");
    // They reach their loops: what they execute is in memory.
    std::thread::sleep(Duration::from_millis(300));
    fs.be_silent();
    let executing = running("/bin/sh", &script);
    let pids = [there.pid(), other.pid(), executing.pid()];

    let captured = within(CAPTURE + SOON, move || {
        let builder = Agent::builder().sample_rate(RATE).cpu_profile_to(MemorySink::new());
        let agent = pids.iter().fold(builder, |builder, pid| builder.pid(*pid)).build().unwrap();
        let begun = Instant::now();
        if !started(&agent) {
            return None;
        }
        let (start, before) = (begun.elapsed(), pids.map(cpu_time));
        agent.wait(CAPTURE);
        let (stopping, after) = (Instant::now(), pids.map(cpu_time));
        let report = agent.stop().unwrap();
        let cpu: Vec<Duration> = before.iter().zip(after).map(|(before, after)| after - *before).collect();
        Some((report, start, stopping.elapsed(), cpu))
    });
    let Some((report, start, stop, cpu)) = captured else { return };
    println!("start {start:?}, stop {stop:?}, {} requests without an answer", fs.unanswered());
    assert!(fs.unanswered() > 0, "the files were asked for");

    let ledger = report.ledger(Mode::OnCpu).unwrap();
    let samples = |pid: u32| ledger.process(pid).map_or(0, |process| process.samples);
    let sampled = pids.map(samples);
    println!("{sampled:?} samples of {cpu:?}; {ledger:?}");
    assert_eq!(ledger.lost(), 0);
    for (samples, cpu) in sampled.into_iter().zip(cpu) {
        let expected = f64::from(RATE) * cpu.as_secs_f64();
        assert!(samples as f64 > 0.7 * expected, "{samples} of {expected} samples");
    }
    // Its name is all that is missing.
    let profile = report.cpu_profile().unwrap();
    let of_program: Vec<_> = profile
        .locations
        .iter()
        .filter(|location| {
            location.mapping.is_some_and(|id| profile.mappings[id.0 as usize].filename == program)
        })
        .collect();
    assert!(!of_program.is_empty(), "{:?}", profile.mappings);
    assert!(of_program.iter().all(|location| location.lines.is_empty()));
}
