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
/// More than a capture takes on a busy machine. The file system never answers.
const LIMIT: Duration = Duration::from_secs(180);
/// CPU time after which a program is in its loop.
const IN_LOOP: Duration = Duration::from_millis(20);
/// CPU time of each program in a capture.
const SAMPLED: Duration = Duration::from_millis(300);
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

/// Waits until each process has used more CPU time than it had before.
fn until_each_has_run(pids: &[u32], before: &[Duration], more: Duration) {
    testkit::until("each process has run", || {
        pids.iter().zip(before).all(|(pid, before)| cpu_time(*pid) > *before + more)
    });
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
    // In their loops the programs execute only pages that are in memory.
    until_each_has_run(&[there.pid(), other.pid()], &[Duration::ZERO; 2], IN_LOOP);
    fs.be_silent();
    let executing = running("/bin/sh", &script);
    let pids = [there.pid(), other.pid(), executing.pid()];

    let captured = within(LIMIT, move || {
        let builder = Agent::builder().sample_rate(RATE).cpu_profile_to(MemorySink::new());
        let agent = pids.iter().fold(builder, |builder, pid| builder.pid(*pid)).build().unwrap();
        let begun = Instant::now();
        if !started(&agent) {
            return None;
        }
        let (start, before) = (begun.elapsed(), pids.map(cpu_time));
        until_each_has_run(&pids, &before, SAMPLED);
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

/// A program that computes, or with arguments lets its stack lie in a part of a file while it sleeps.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	volatile unsigned long sum = 0;

	if (argc == 3) {
		int file = open(argv[1], O_RDONLY);
		char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, atol(argv[2]));
		if (page == MAP_FAILED)
			return 1;
#ifdef __x86_64__
		__asm__ volatile("mov %0, %%rsp; 1: mov $34, %%eax; syscall; jmp 1b" : : "r"(page + 2048) : "memory");
#endif
	}
	for (;;)
		sum++;
}
"#;
/// What opening a file reads is before it.
const UNREAD_FROM: u64 = 64 << 10;
/// Whether the program with arguments has its stack in the file: it sleeps in `pause`, or it computes where it cannot move its stack.
fn is_ready(sleeper: &Process) -> bool {
    let call = std::fs::read_to_string(format!("/proc/{}/syscall", sleeper.pid())).unwrap_or_default();
    call.starts_with("34 ") || cfg!(not(target_arch = "x86_64")) && cpu_time(sleeper.pid()) > IN_LOOP
}

#[test]
fn files_that_open_and_cannot_be_read_hold_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let compiler = testkit::need!("cc");
    let (source, local) = (folder.path().join("program.c"), folder.path().join("program"));
    std::fs::write(&source, PROGRAM).unwrap();
    // Statically linked, it is large enough.
    let compiled =
        Command::new(compiler).args(["-O1", "-g", "-static", "-o"]).arg(&local).arg(&source).status();
    assert!(compiled.unwrap().success());
    let bytes = std::fs::read(&local).unwrap();
    assert!(bytes.len() as u64 > 4 * UNREAD_FROM);
    let fs = match SilentFs::mount(bytes) {
        Ok(fs) => fs,
        Err(error) => testkit::skip!("no file system in user space: {error}"),
    };
    let start =
        |command: &mut Command| Process::start(command.stdin(Stdio::null()).stdout(Stdio::null())).unwrap();
    let there = start(&mut Command::new(fs.program()));
    let offset = (2 * UNREAD_FROM).to_string();
    let sleeper = start(Command::new(&local).arg(fs.program()).arg(&offset));
    let other = running("/bin/sh", LOOP);
    testkit::until("all three are ready", || {
        is_ready(&sleeper) && [&there, &other].iter().all(|program| cpu_time(program.pid()) > IN_LOOP)
    });
    fs.be_silent_from(UNREAD_FROM);
    let pids = [there.pid(), other.pid(), sleeper.pid()];

    let captured = within(LIMIT, move || {
        let builder = Agent::builder().sample_rate(RATE).cpu_profile_to(MemorySink::new());
        let builder = builder.off_cpu_profile_to(MemorySink::new());
        let agent = pids.iter().fold(builder, |builder, pid| builder.pid(*pid)).build().unwrap();
        let begun = Instant::now();
        if !started(&agent) {
            return None;
        }
        let (start, busy) = (begun.elapsed(), [pids[0], pids[1]]);
        until_each_has_run(&busy, &busy.map(cpu_time), SAMPLED);
        let interval = agent.cut().unwrap();
        let cut = Instant::now();
        // It waits for names.
        let samples = interval.ledger(Mode::OnCpu).iter().count();
        let named = cut.elapsed();
        let of_cut = interval.warnings();
        until_each_has_run(&busy, &busy.map(cpu_time), SAMPLED);
        let stopping = Instant::now();
        let report = agent.stop().unwrap();
        Some((report, samples, of_cut, [start, named, stopping.elapsed()]))
    });
    let Some((report, figures, of_cut, times)) = captured else { return };
    println!("start, names of a cut, stop: {times:?}; {} requests without an answer", fs.unanswered());
    assert!(fs.unanswered() > 0 && figures > 0);
    let ledger = report.ledger(Mode::OnCpu).unwrap();
    let samples = pids.map(|pid| ledger.process(pid).map_or(0, |process| process.samples));
    println!("{samples:?}; {ledger:?}");
    assert!(samples[0] > 10 && samples[1] > 10 && ledger.lost() == 0, "{samples:?}");
    // The interval whose places were asked for tells of the file.
    let warnings = of_cut.iter().chain(&report.warnings);
    let warnings: Vec<&str> = warnings.map(|warning| warning.message.as_str()).collect();
    println!("{warnings:#?}");
    for told in ["no unwind tables for 1 file whose", "does not answer were not read"] {
        assert!(warnings.iter().any(|warning| warning.contains(told)), "{told}: {warnings:?}");
    }
    #[cfg(target_arch = "x86_64")]
    assert!(warnings.iter().any(|warning| warning.contains("1 read of memory")), "{warnings:?}");
    // The other program has its names.
    let profile = report.cpu_profile().unwrap();
    let named = profile.locations.iter().filter(|location| !location.lines.is_empty()).count();
    assert!(named > 0, "{:?}", profile.mappings);
}
