//! Calls in a real program, which checks that nothing of it changes.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sys::ptrace::send_signal;
use testkit::Process;

use super::*;

mod storm;

const PATIENCE: Duration = Duration::from_secs(20);
const SIGTERM: i32 = 15;
const SIGUSR1: i32 = 10;
const SIGFPE: i32 = 8;
const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;
/// As the C library numbers it.
const SIGRTMIN: i32 = 34;

struct Target {
    process: Process,
    folder: tempfile::TempDir,
    code: Code,
}

/// What a target says at its end.
#[derive(Debug, PartialEq, Eq)]
struct End {
    changed: Option<i32>,
    usual: u64,
    queued: u64,
    given_back: u64,
}

impl Target {
    fn start(mode: &str) -> Option<Self> {
        Self::of("target.c", mode)
    }

    /// A program from this file, started with this word. `None` where it does not run: then the reason of the skip is printed.
    fn of(source: &str, mode: &str) -> Option<Self> {
        let gcc = testkit::needed("gcc")?;
        if !fs::read_to_string("/proc/cpuinfo").unwrap().contains(" avx2 ") {
            testkit::skipped("this processor has no AVX2");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let (program, output) = (folder.path().join("target"), folder.path().join("output"));
        let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(source);
        let mut gcc = Command::new(gcc);
        gcc.args(["-O2", "-mavx2", "-rdynamic", "-pthread", "-o"]).arg(&program).arg(source);
        let built = gcc.status();
        assert!(built.unwrap().success());
        let mut command = Command::new(program);
        command.arg(mode).stdin(Stdio::null()).stdout(fs::File::create(&output).unwrap());
        let process = Process::start(&mut command).unwrap();
        testkit::until("it runs", || fs::read_to_string(&output).unwrap().contains("ready"));
        let code = Code::read(process.pid()).unwrap();
        Some(Self { process, folder, code })
    }

    fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn function(&self, name: &str) -> u64 {
        self.code.symbol(name).unwrap()
    }

    fn stop(&self) -> Stopped {
        Stopped::new(self.pid(), self.pid(), Instant::now() + PATIENCE).unwrap()
    }

    fn calls(&self) -> Calls {
        Calls::new(self.stop(), &self.code, b"data").unwrap()
    }

    fn send(&self, signal: i32) {
        send_signal(self.pid(), self.pid(), signal).unwrap();
    }

    fn given_back(&self) -> u64 {
        self.number("given_back")
    }

    fn number(&self, name: &str) -> u64 {
        let mut value = [0; 8];
        let place = self.code.files().iter().find_map(|file| file.symbols(&[name])[0]).unwrap();
        sys::memory::read(self.pid(), place, &mut value).unwrap();
        u64::from_le_bytes(value)
    }

    fn end(mut self) -> End {
        self.send(SIGTERM);
        let mut status = None;
        testkit::until("it has ended", || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        let said = fs::read_to_string(self.folder.path().join("output")).unwrap();
        let mut numbers =
            said.lines().last().unwrap().split(' ').map(|number| number.parse().unwrap_or(u64::MAX));
        let mut next = || numbers.next().unwrap_or(u64::MAX);
        End { changed: status.unwrap().code(), usual: next(), queued: next(), given_back: next() }
    }
}

const UNCHANGED: End = End { changed: Some(0), usual: 0, queued: 0, given_back: 0 };

#[test]
fn a_program_goes_on_as_if_nothing_had_happened() {
    // Under a filter the thread really returns from a signal, and the kernel forgets how much of a wait is left.
    let waits_in_part = !testkit::has_seccomp_filter();
    if !waits_in_part {
        testkit::skipped("in part: under a seccomp filter a wait with a timeout ends early");
    }
    for mode in ["spin", "sleep", "poll", "futex"] {
        if ["sleep", "poll"].contains(&mode) && !waits_in_part {
            continue;
        }
        let Some(target) = Target::start(mode) else { return };
        let probe = target.function("probe");
        for round in 0..if mode == "spin" { 60 } else { 15 } {
            let mut calls = target.calls();
            let mut data = [0; 4];
            sys::memory::read(target.pid(), calls.data(), &mut data).unwrap();
            assert_eq!(&data, b"data");
            assert_eq!(calls.call(probe, &[1, 2, round % 10], PATIENCE).unwrap(), 120 + round % 10);
            assert_eq!(calls.call(probe, &[3, 0, 1], PATIENCE).unwrap(), 301);
            calls.finish().unwrap();
            if mode != "spin" {
                std::thread::sleep(Duration::from_millis(3));
            }
        }
        assert_eq!(target.end(), UNCHANGED, "{mode}");
    }
}

#[test]
fn no_signal_is_lost() {
    for mode in ["spin", "sleep"] {
        let Some(target) = Target::start(mode) else { return };
        let (pid, slow) = (target.pid(), target.function("slow"));
        let over = AtomicBool::new(false);
        let sent = std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let mut sent = 0;
                while !over.load(Ordering::Relaxed) {
                    send_signal(pid, pid, SIGRTMIN).unwrap();
                    sent += 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
                sent
            });
            for round in 1..=20 {
                let mut calls = target.calls();
                // One that does not queue: it is sent once while functions run.
                target.send(SIGUSR1);
                assert_eq!(calls.call(slow, &[3], PATIENCE).unwrap(), 111);
                calls.finish().unwrap();
                testkit::until("it got the signal", || target.number("usual") == round);
            }
            over.store(true, Ordering::Relaxed);
            sender.join().unwrap()
        });
        let end = target.end();
        assert_eq!((end.changed, end.queued, end.usual), (Some(0), sent, 20), "{mode}");
    }
}

#[test]
fn a_signal_that_cannot_wait_arrives_after_a_call_that_is_late() {
    let Some(target) = Target::start("spin") else { return };
    let (pid, slow) = (target.pid(), target.function("slow"));
    let mut calls = target.calls();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            // Signals of faults are not blocked while functions run.
            send_signal(pid, pid, SIGFPE).unwrap();
        });
        let late = calls.call(slow, &[2000], Duration::from_millis(100));
        assert!(matches!(late, Err(CallError::Late(_))), "{late:?}");
    });
    drop(calls);
    testkit::until("it gets the signal", || target.number("queued") == 1);
}

#[test]
fn a_wait_that_the_kernel_has_forgotten_is_not_taken_for_another() {
    let Some(target) = Target::start("sleep") else { return };
    let (pid, slow) = (target.pid(), target.function("slow"));
    // From its first signal on the program allows EINTR.
    target.send(SIGUSR1);
    testkit::until("it got the signal", || target.number("usual") == 1);
    for _ in 0..10 {
        let mut calls = target.calls();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..4 {
                    send_signal(pid, pid, SIGSTOP).unwrap();
                    std::thread::sleep(Duration::from_micros(300));
                    send_signal(pid, pid, SIGCONT).unwrap();
                    std::thread::sleep(Duration::from_micros(700));
                }
            });
            assert_eq!(calls.call(slow, &[4], PATIENCE).unwrap(), 111);
        });
        calls.finish().unwrap();
    }
    assert_eq!(target.end(), End { usual: 1, ..UNCHANGED });
}

#[test]
fn a_fault_is_undone() {
    let Some(target) = Target::start("spin") else { return };
    let mut calls = target.calls();
    // Functions overwrite what lies below their frames: ways back do not.
    assert_eq!(calls.call(target.function("probe"), &[0, 0, 1], PATIENCE).unwrap(), 1);
    calls.set_way_out(target.function("give_back"), 1).unwrap();
    let failed = calls.call(target.function("fault"), &[], PATIENCE).unwrap_err();
    assert!(matches!(failed, CallError::Fault(11)), "{failed}");
    assert_eq!(calls.call(target.function("probe"), &[1, 2, 3], PATIENCE).unwrap(), 123);
    calls.clear_way_out();
    assert_eq!(calls.call(target.function("probe"), &[4, 5, 6], PATIENCE).unwrap(), 456);
    calls.finish().unwrap();
    assert_eq!(target.end(), UNCHANGED);
}

/// The kernel detaches from the targets of a thread that ends as it does from those of a process that is killed.
fn then_die(target: &Target, act: impl FnOnce(Calls) -> Calls + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| std::mem::forget(act(target.calls())));
    });
    let untraced =
        || fs::read_to_string(format!("/proc/{}/status", target.pid())).unwrap().contains("TracerPid:\t0\n");
    testkit::until("the kernel has detached", untraced);
}

#[test]
fn a_program_finds_its_way_back_if_we_die() {
    for mode in ["spin", "futex"] {
        let Some(target) = Target::start(mode) else { return };
        let [probe, slow, give_back] = ["probe", "slow", "give_back"].map(|name| target.function(name));
        // Before the first call, between two calls, in the middle of one; without and with something to give back.
        then_die(&target, |calls| calls);
        let called = |mut calls: Calls| {
            calls.call(probe, &[1, 2, 3], PATIENCE).unwrap();
            calls
        };
        let called_late = |mut calls: Calls| {
            let late = calls.call(slow, &[100], Duration::from_millis(20));
            assert!(matches!(late, Err(CallError::Late(_))), "{late:?}");
            calls
        };
        let with_way_out = |mut calls: Calls| {
            calls.set_way_out(give_back, 1).unwrap();
            calls
        };
        then_die(&target, called);
        then_die(&target, called_late);
        std::thread::sleep(Duration::from_millis(150));
        assert_eq!(target.given_back(), 0);
        then_die(&target, |calls| called(called(with_way_out(called(calls)))));
        testkit::until("it gives back", || target.given_back() == 1);
        then_die(&target, |calls| called_late(with_way_out(calls)));
        testkit::until("it gives back", || target.given_back() == 2);
        let end = target.end();
        // What a function did to errno stays; the program sees that.
        assert!([Some(0), Some(5)].contains(&end.changed), "{mode}: {end:?}");
        assert_eq!(end.given_back, 2);
    }
}

#[test]
fn a_function_that_is_late_is_left_to_end_by_itself() {
    let Some(target) = Target::start("spin") else { return };
    let mut calls = target.calls();
    calls.set_way_out(target.function("give_back"), 1).unwrap();
    assert!(calls.call(target.function("slow"), &[100], Duration::from_millis(10)).is_err());
    assert!(calls.call(target.function("probe"), &[], PATIENCE).is_err());
    assert!(matches!(calls.finish(), Err(CallError::Late(_))));
    testkit::until("it gives back", || target.given_back() == 1);
    assert!([Some(0), Some(5)].contains(&target.end().changed));
}

#[test]
fn what_cannot_be_stopped_is_refused() {
    let Some(target) = Target::start("sleep") else { return };
    let pid = target.pid();
    let stopped = target.stop();
    assert!(stopped.system_call().is_some());
    let refused = std::thread::spawn(move || Stopped::new(pid, pid, Instant::now() + PATIENCE).unwrap_err());
    let refused = refused.join().unwrap().to_string();
    assert!(refused.contains(&format!("process {} traces it", std::process::id())), "{refused}");
    stopped.release().unwrap();
    let own = std::process::id();
    assert!(Stopped::new(own, own, Instant::now() + PATIENCE).is_err(), "this process");
    assert!(matches!(Stopped::new(u32::MAX, u32::MAX, Instant::now()), Err(CallError::Ended)));
    target.send(SIGSTOP);
    testkit::until("it is stopped", || {
        fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ")
    });
    let refused = Stopped::new(pid, pid, Instant::now() + PATIENCE).unwrap_err().to_string();
    assert!(refused.contains("stopped by a signal"), "{refused}");
    target.send(SIGCONT);
    assert_eq!(target.end(), UNCHANGED);
}

#[test]
fn stacks_are_walked_to_their_outermost_frame() {
    let Some(target) = Target::start("sleep") else { return };
    testkit::until("a whole stack", || {
        let stopped = target.stop();
        let walked = target.code.walk(stopped.registers());
        let outermost = walked.addresses.last().and_then(|address| target.code.file_at(*address));
        !walked.in_handler && walked.is_whole && outermost.is_some_and(|file| file.name() == "target")
    });
}
