//! The ledger of a profile accounts for each sample exactly, in every mode and combination, for every kind of target.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use truth::frame::{Capture, Frame, Stack};
use truth::programs::Scheduling;
use truth::session::{Finished, Session, Subject};
use truth::target::Target;

use crate::Setup;

const STATES: &str = "blocked,iowait,preempted";
const COMBINATIONS: [&[&str]; 7] = [
    &["--profile"],
    &["--offcpu"],
    &["--offcpu", "--offcpu-states", STATES, "--wakers"],
    &["--offcpu", "--min-block", "300us"],
    &["--profile", "--offcpu", "--wall-output"],
    &["--profile", "--offcpu", "--min-block", "300us"],
    &["--profile", "--offcpu", "--per-thread", "--wall-output"],
];
const LENGTH: &str = "300ms";
const PYTHON: &str = "import time
def work(): return sum(i for i in range(2000))
print('ready', flush=True)
while True: work(); time.sleep(0.001)";

fn number(capture: &Capture, key: &str) -> u64 {
    capture.ledger(key).map_or(0, |value| value.parse().unwrap())
}

/// A frame that stands for an unknown stack is not counted as a frame. Frames of Python have no module either.
fn is_of_stack(frame: &&Frame) -> bool {
    !frame.module.is_empty()
        || frame.name.as_ref().is_none_or(|name| name == "[interpreted]" || !name.starts_with('['))
}

/// The ledger accounts for the stack of each of its samples.
fn adds_up(capture: &Capture, mode: &str, what: &str) {
    assert_eq!(capture.ledger("mode"), Some(mode), "{what}: {:?}", capture.comments);
    let causes = capture.comments.iter().filter_map(|comment| comment.strip_prefix("perf-agent.walks."));
    let walked: u64 = causes.map(|cause| cause.split_once('=').unwrap().1.parse::<u64>().unwrap()).sum();
    let without = ["no_user_stack", "not_run_yet", "asleep_before"].map(|key| number(capture, key));
    let accounted = walked + without.iter().sum::<u64>();
    assert_eq!(number(capture, "samples"), accounted, "{what}, {mode}: {:?}", capture.comments);
}

/// Fails unless a profile has exactly the samples and frames of its ledger, and each loss has a cause.
pub(super) fn accounts_for_all(capture: &Capture, mode: &str, what: &str) {
    adds_up(capture, mode, what);
    let comments = &capture.comments;
    assert_eq!(number(capture, "samples"), capture.samples(), "{what}, {mode}: {comments:?}");
    let lost = comments.iter().filter_map(|comment| comment.strip_prefix("perf-agent.lost."));
    let lost: u64 = lost.map(|cause| cause.split_once('=').unwrap().1.parse::<u64>().unwrap()).sum();
    assert_eq!(number(capture, "lost"), lost, "{what}, {mode}: {comments:?}");
    let frames = |stack: &Stack| stack.count * stack.frames.iter().filter(is_of_stack).count() as u64;
    let frames: u64 = capture.stacks.iter().map(frames).sum();
    assert_eq!(number(capture, "frames"), frames, "{what}, {mode}: {comments:?}");
}

fn check(finished: &Finished, options: &[&str], what: &str) {
    let what = format!("{what} {options:?}");
    let mut profiles = Vec::new();
    if options.contains(&"--profile") {
        profiles.push(("on-cpu", finished.on_cpu().unwrap()));
    }
    if options.contains(&"--offcpu") {
        profiles.push(("off-cpu", finished.off_cpu().unwrap()));
    }
    for (mode, capture) in &profiles {
        // The frames of a waker stand beyond those of the stack.
        if options.contains(&"--wakers") {
            adds_up(capture, mode, &what);
            assert_eq!(
                number(capture, "samples"),
                capture.samples(),
                "{what}, {mode}: {:?}",
                capture.comments
            );
        } else {
            accounts_for_all(capture, mode, &what);
        }
    }
    if options.contains(&"--wall-output") {
        let wall = finished.wall().unwrap();
        adds_up(&wall, "wall", &what);
        let samples: u64 = profiles.iter().map(|(_, capture)| number(capture, "samples")).sum();
        assert!(number(&wall, "samples") >= samples, "{what}: {:?}", wall.comments);
        assert!(
            wall.ledger("symbolized_pct").is_some() && wall.ledger("rate_hz").is_some(),
            "{:?}",
            wall.comments
        );
        profiles.push(("wall", wall));
    }
}

/// No sample shows the process of a command before it executes the command.
fn nothing_of_ours(finished: &Finished, options: &[&str]) {
    let read = [
        ("--profile", finished.on_cpu()),
        ("--offcpu", finished.off_cpu()),
        ("--wall-output", finished.wall()),
    ];
    for (_, capture) in read.into_iter().filter(|(option, _)| options.contains(option)) {
        let capture = capture.unwrap();
        let ours: Vec<_> =
            capture.stacks.iter().filter(|stack| stack.comm.starts_with("perfagent")).collect();
        assert!(ours.is_empty(), "{options:?}: {ours:?}");
    }
}

#[test]
fn every_sample_is_told_with_its_stack() {
    let Some(setup) = Setup::beside_others() else { return };
    let threaded = Scheduling::new(&setup.out).path("mayflies").unwrap();
    let shell = Path::new("/bin/sh");
    let run = |options: &[&str], subject: Subject<'_>| {
        let options = [options, &["--sample-rate", "997", "--duration", LENGTH]].concat();
        Session::start(&setup.agent, &options, subject).unwrap().finish().unwrap()
    };
    for options in COMBINATIONS {
        let commands: [(&str, Subject<'_>); 2] = [
            (
                "a command that forks",
                Subject::Command(shell, &["-c", "for i in 1 2 3 4 5 6 7 8; do /bin/true; sleep 0.01; done"]),
            ),
            ("a command with threads", Subject::Command(&threaded, &["150"])),
        ];
        for (what, subject) in commands {
            let finished = run(options, subject);
            check(&finished, options, what);
            nothing_of_ours(&finished, options);
        }
    }
    let forks = Target::start_command(
        Command::new(shell).args(["-c", "echo ready; while :; do /bin/true; sleep 0.001; done"]),
    )
    .unwrap();
    let threads = Target::start_command(Command::new(&threaded).arg("600000")).unwrap();
    // Walks of interpreters are counted too, also on the whole machine below.
    let python = Target::start_command(Command::new("python3").args(["-c", PYTHON])).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    for options in COMBINATIONS {
        check(&run(options, Subject::Process(python.pid())), options, "a process of Python");
        check(&run(options, Subject::Process(forks.pid())), options, "a process that forks");
        check(&run(options, Subject::Process(threads.pid())), options, "a process with threads");
    }
    // On the whole machine only the combinations of modes, which come last.
    for options in &COMBINATIONS[3..] {
        check(&run(options, Subject::Machine), options, "the machine");
    }
}
