//! Kernel frames of single targets.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::{Command, Stdio};
use std::time::Duration;

use perfagent::{Agent, Recording};
use recording::State;
use testkit::Process;

use crate::started::started;

/// Processes, one after the other, of a shell: each spends its time in system calls, and sometimes waits.
fn shell(program: &str) -> Process {
    let script = format!("while :; do {program} < /dev/zero > /dev/null 2> /dev/null; sleep 0.01; done");
    Process::start(Command::new("sh").args(["-c", &script]).stdin(Stdio::null())).unwrap()
}

/// Stacks with and without kernel frames, of a process by number or of those with a name.
fn stacks_of(recording: &Recording, pid: u32, comm: &str, states: &[State]) -> [u64; 2] {
    let model = &recording.model().recording;
    let mut found = [0; 2];
    for count in &model.counts {
        let at = model.task_stack(count.stack).unwrap();
        let task = model.task(at.task).unwrap();
        let is_named = model.labels(task.labels).contains(&profile::Label::str("comm", comm));
        if states.contains(&at.state) && (task.pid == Some(pid) || is_named) {
            found[usize::from(model.stack(at.stack).unwrap().kernel_frames == 0)] += count.value(0);
        }
    }
    found
}

/// How two processes become targets.
#[derive(Clone, Copy, Debug)]
enum Given {
    /// Before the start.
    First,
    /// While the capture goes on.
    Added,
}

/// Stacks of both targets with and without kernel frames, on and off CPUs. None: captures are not possible here.
fn capture(
    targets: [&Process; 2],
    given: Given,
    by_default: bool,
    length: Duration,
) -> Option<[[[u64; 2]; 2]; 2]> {
    let [one, other] = targets.map(Process::pid);
    let idle = Process::asleep();
    let (first, later) = match given {
        Given::First => (vec![one, other], vec![]),
        Given::Added => (vec![idle.pid()], vec![one, other]),
    };
    let builder = Agent::builder().pids(first).with_cpu_profile().with_off_cpu_profile();
    let builder = builder.sample_rate(499).kernel_stacks(by_default);
    // Either way the first target has kernel frames, and the second has none.
    let (chosen, on) = if by_default { (other, false) } else { (one, true) };
    let agent = builder.target_kernel_stacks(chosen, on).build().unwrap();
    if !started(&agent) {
        return None;
    }
    for pid in later {
        agent.add_pid(pid).unwrap();
    }
    agent.wait(length);
    let report = agent.stop().unwrap();
    let recording = report.recording();
    assert!(recording.model().recording.settings.kernel_stacks);
    let states = [&[State::Sampled][..], &[State::Blocked, State::IoWait]];
    let of = |pid, comm| states.map(|states| stacks_of(recording, pid, comm, states));
    Some([of(one, "dd"), of(other, "head")])
}

#[test]
fn kernel_frames_can_be_had_of_one_target_with_its_children() {
    // Many short reads: nearly all time is in the kernel.
    let (one, other) = (shell("dd bs=16 count=200000"), shell("head -c 400000000"));
    for (given, by_default) in
        [(Given::First, false), (Given::First, true), (Given::Added, false), (Given::Added, true)]
    {
        // Other tests may leave them little time.
        for seconds in [1, 3, 10, 30] {
            let length = Duration::from_secs(seconds);
            let Some([with, without]) = capture([&one, &other], given, by_default, length) else { return };
            println!("{given:?}, by default {by_default}: {with:?} and {without:?}");
            assert!(without.iter().all(|[with_kernel, _]| *with_kernel == 0), "{without:?}");
            if with.iter().all(|[kernel, no]| *kernel > 3 && kernel > no)
                && without.iter().all(|[_, no]| *no > 3)
            {
                break;
            }
            assert!(seconds < 30, "{given:?}, by default {by_default}: {with:?} and {without:?}");
        }
    }
}
