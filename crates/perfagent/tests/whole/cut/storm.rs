//! Cuts of the whole system while processes come and go, and what many cuts cost.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use perfagent::{Agent, AgentBuilder, MemorySink, Mode, Recording};
use testkit::Process;

use super::sums::{check_samples, figure};
use crate::started::started;

/// Percentage of the frames with names, over several recordings, and the number of samples.
fn named(recordings: &[Recording]) -> (f64, f64) {
    let (mut named, mut all) = (0.0, 0.0);
    for recording in recordings {
        let samples = figure(recording, Mode::OnCpu, "samples");
        named += samples * figure(recording, Mode::OnCpu, "symbolized_pct");
        all += samples;
    }
    (named / all, all)
}

/// Cuts a capture during a fork storm, beside one that is not cut. `targets` chooses the whole system or the storm.
fn cut_during_a_storm(least: usize, targets: impl Fn(AgentBuilder, &Process) -> AgentBuilder) {
    let mut storm = Command::new("sh");
    storm.args(["-c", "while :; do /bin/true & /bin/true & wait; done"]).stdout(Stdio::null());
    let storm = Process::start(storm.stdin(Stdio::null())).unwrap();
    let agent = || {
        let builder = targets(Agent::builder().sample_rate(499), &storm);
        builder.with_cpu_profile().with_off_cpu_profile().wakers(true).build().unwrap()
    };
    let (whole, agent) = (agent(), agent());
    if !started(&whole) || !started(&agent) {
        return;
    }
    let mut intervals = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) || intervals.len() < least {
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
    let ((cut, samples), (uncut, of_whole)) = (named(&intervals), named(&whole));
    println!("{samples} samples in {} intervals, named {cut:.2} % and {uncut:.2} %", intervals.len());
    // As far apart as their numbers of samples allow.
    let apart = 1.0 + 100.0 * (1.0 / samples + 1.0 / of_whole).sqrt();
    assert!((cut - uncut).abs() < 2.0 * apart, "named: {cut} and {uncut}");
}

#[test]
fn a_fork_storm_is_cut_without_loss() {
    cut_during_a_storm(8, |builder, storm| builder.pid(storm.pid()));
}

#[test]
fn the_whole_system_is_cut_without_loss() {
    // The names of all programs of the machine take their time.
    cut_during_a_storm(3, |builder, _| builder.system_wide());
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn memory_does_not_grow_with_the_number_of_cuts() {
    // In a process of its own: other tests use memory too.
    const ALONE: &str = "PERF_AGENT_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let mut alone = Command::new(std::env::current_exe().unwrap());
        alone.args(["--exact", "cut::storm::memory_does_not_grow_with_the_number_of_cuts", "--nocapture"]);
        let output = alone.env(ALONE, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        print!("{text}");
        assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
        return;
    }
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
    assert!(resident[5] < resident[1] + (4 << 10), "{resident:?}");
}
