//! Threads that leave their CPU in the moment in which they are entered. Without privileges this skips and says so.

use std::process::{Command, Stdio};
use std::thread::{self, Thread};
use std::time::Duration;

use kernel::{Kernel, KernelProcess};
use testkit::{Lines, Process};

use crate::alone;
use crate::following::{following_nobody, now_ns};

/// Set in the process that runs [`the_target_of_the_other_test`].
const TARGET: &str = "PERF_AGENT_TEST_TARGET";
const TARGETS: u32 = 40;

/// Two threads on one CPU that wake each other.
#[test]
fn the_target_of_the_other_test() {
    if std::env::var_os(TARGET).is_none() {
        return;
    }
    let hand_over = |to: &Thread| {
        to.unpark();
        thread::park();
    };
    let first = thread::current();
    let second = thread::spawn(move || {
        loop {
            hand_over(&first);
        }
    });
    println!("\nready");
    loop {
        hand_over(second.thread());
    }
}

/// A process whose threads switch all the time, all on the last CPU.
fn switching() -> Process {
    let last = thread::available_parallelism().unwrap().get() - 1;
    let mut command = Command::new("taskset");
    command.args(["-c", &last.to_string()]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "leaving::the_target_of_the_other_test", "--nocapture"]).env(TARGET, "1");
    let mut target = Process::start(command.stdin(Stdio::null()).stdout(Stdio::piped())).unwrap();
    let lines = Lines::of(target.stdout.take().unwrap());
    while lines.next() != "ready" {}
    target
}

#[test]
fn a_thread_that_leaves_its_cpu_when_it_is_entered_is_seen_to_leave() {
    let _alone = alone();
    let Some(mut kernel) = following_nobody(Duration::ZERO) else { return };
    // Its program runs after that of the first one at each switch, and makes the switch last longer.
    let Some(mut other) = following_nobody(Duration::ZERO) else { return };
    let enter = |kernel: &mut Kernel, pid: u32| {
        let start_ns = now_ns();
        let process = KernelProcess { pid, exec_id: start_ns, mappings: &[], waker_only: false };
        kernel.add_process(&process).unwrap();
        kernel.enter_threads(start_ns).unwrap();
    };
    for _ in 0..TARGETS {
        let target = switching();
        enter(&mut other, target.pid());
        enter(&mut kernel, target.pid());
        let before = kernel.off_cpu_counters().samples;
        testkit::until("it has switched", || {
            for kernel in [&mut kernel, &mut other] {
                kernel.receive().unwrap();
                kernel.drain(|_, _| ()).unwrap();
            }
            kernel.off_cpu_counters().samples > before + 20
        });
    }
    let counters = kernel.off_cpu_counters();
    println!("{} intervals, {} lost unseen", counters.samples, counters.lost_unseen);
    assert_eq!(counters.lost_unseen, 0);
}
