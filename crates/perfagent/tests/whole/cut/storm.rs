//! Cuts of the whole system while processes come and go, and what many cuts cost.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use perfagent::{Agent, MemorySink, Mode, Recording};
use testkit::Process;

use super::sums::{check_samples, figure, profiled};
use crate::started::started;

/// Share of the frames with names, over several recordings.
fn named(recordings: &[Recording]) -> f64 {
    let (mut named, mut all) = (0.0, 0.0);
    for recording in recordings {
        let samples = figure(recording, Mode::OnCpu, "samples");
        named += samples * figure(recording, Mode::OnCpu, "symbolized_pct");
        all += samples;
    }
    named / all
}

#[test]
fn a_fork_storm_is_cut_without_loss() {
    let mut storm = Command::new("sh");
    storm.args(["-c", "while :; do /bin/true & /bin/true & wait; done"]).stdout(Stdio::null());
    let _storm = Process::start(storm.stdin(Stdio::null())).unwrap();
    let system = || {
        let builder = Agent::builder().system_wide().sample_rate(499);
        builder.with_cpu_profile().with_off_cpu_profile().wakers(true).build().unwrap()
    };
    let (whole, agent) = (system(), system());
    if !started(&whole) || !started(&agent) {
        return;
    }
    let mut intervals = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) || intervals.len() < 8 {
        agent.wait(Duration::from_millis(200));
        intervals.push(agent.cut().unwrap());
    }
    intervals.push(agent.stop().unwrap().recording().clone());
    let whole = [whole.stop().unwrap().recording().clone()];
    for interval in &intervals {
        check_samples(interval);
        for mode in [Mode::OnCpu, Mode::OffCpu] {
            assert_eq!(figure(interval, mode, "lost") as u64, 0, "{:?}", interval.ledger(mode));
        }
    }
    let samples: i64 = intervals.iter().map(|interval| profiled(interval, Mode::OnCpu, 0)).sum();
    let (cut, uncut) = (named(&intervals), named(&whole));
    println!("{samples} samples in {} intervals, named {cut:.2} % and {uncut:.2} %", intervals.len());
    assert!((cut - uncut).abs() < 3.0, "named: {cut} and {uncut}");
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn memory_does_not_grow_with_the_number_of_cuts() {
    let target = Process::asleep();
    let builder = Agent::builder().pid(target.pid()).with_cpu_profile().with_off_cpu_profile();
    let agent = builder.wall_profile_to(MemorySink::new()).build().unwrap();
    if !started(&agent) {
        return;
    }
    let mut resident = Vec::new();
    for _ in 0..6 {
        for _ in 0..20 {
            let interval = agent.cut().unwrap();
            assert!(interval.model().recording.task_stacks.len() < 10);
        }
        resident.push(resident_kib());
    }
    println!("resident after each 20 cuts: {resident:?} KiB");
    // Other tests of this process run meanwhile.
    assert!(resident[5] < resident[1] + (64 << 10), "{resident:?}");
}
