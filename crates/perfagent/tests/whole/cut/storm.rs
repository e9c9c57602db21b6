//! Cuts of the whole system while processes come and go, and what many cuts cost.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use perfagent::{Agent, AgentBuilder, MemorySink, Mode, Recording};
use testkit::Process;

use super::sums::{assert_near, check_samples, figure};
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

/// Cuts a capture during a fork storm, beside one that is not cut, and checks each interval. `targets` chooses the whole system or
/// the storm. The intervals, and the whole; none if there can be no captures.
fn cut_during_a_storm(
    is_named: bool,
    targets: impl Fn(AgentBuilder, &Process) -> AgentBuilder,
) -> Option<(Vec<Recording>, Recording)> {
    let mut storm = Command::new("sh");
    storm.args(["-c", "while :; do /bin/true & /bin/true & wait; done"]).stdout(Stdio::null());
    let storm = Process::start(storm.stdin(Stdio::null())).unwrap();
    // An agent without a CPU loses samples, cut or not. So its threads, which inherit the priority, run before other work.
    let _ = rustix::process::nice(-15);
    let agent = || {
        let builder = targets(Agent::builder(), &storm);
        // Room for the stacks of a busy machine, whose agent may have to wait for a CPU.
        let builder = builder.max_stacks(1 << 17).with_cpu_profile().with_off_cpu_profile().wakers(true);
        builder.wall_profile_to(MemorySink::new()).build().unwrap()
    };
    let (whole, agent) = (agent(), agent());
    if !started(&whole) || !started(&agent) {
        return None;
    }
    if !is_named {
        [&whole, &agent].into_iter().for_each(Agent::abandon_symbolization);
    }
    let mut intervals = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) || intervals.len() < 2 {
        agent.wait(Duration::from_millis(200));
        intervals.push(agent.cut().unwrap());
    }
    intervals.push(agent.stop().unwrap().recording().clone());
    let whole = whole.stop().unwrap().recording().clone();
    let (mut all, mut all_expected) = (0.0, 0.0);
    for interval in &intervals {
        check_samples(interval);
        let sampler = &interval.model().recording.accounting.sampler;
        assert_eq!(sampler.walks.iter().sum::<u64>(), sampler.samples, "each walk is a sample: {sampler:?}");
        let [sum, expected] = ["wall.sum_ns", "wall.threads_ns"].map(|key| figure(interval, Mode::Wall, key));
        // Stretches are split at the seam exactly, unless the agent is interrupted in the moment in which it writes the seam down.
        assert_near("time of all threads", sum, expected, 0.01, 5e6);
        (all, all_expected) = (all + sum, all_expected + expected);
        for mode in [Mode::OnCpu, Mode::OffCpu] {
            assert_eq!(figure(interval, mode, "lost") as u64, 0, "{:?}", interval.ledger(mode));
        }
    }
    // What one interval has too much is missing in the next one.
    println!("{} intervals: {all} ns of {all_expected} ns", intervals.len());
    assert_near("time of all threads in all intervals", all, all_expected, 0.01, 0.0);
    Some((intervals, whole))
}

#[test]
fn a_fork_storm_is_cut_without_loss() {
    let cut = cut_during_a_storm(true, |builder, storm| builder.pid(storm.pid()).sample_rate(499));
    let Some((intervals, whole)) = cut else { return };
    let ((cut, samples), (uncut, of_whole)) = (named(&intervals), named(&[whole]));
    println!("named: {cut:.2} % of {samples} samples, and {uncut:.2} % of {of_whole} without cuts");
    // As far apart as their numbers of samples allow.
    let apart = 1.0 + 100.0 * (1.0 / samples + 1.0 / of_whole).sqrt();
    assert!((cut - uncut).abs() < 2.0 * apart, "named: {cut} and {uncut}");
}

#[test]
fn the_whole_system_is_cut_without_loss() {
    // The names of all programs of a machine may take minutes.
    // An agent without optimization is slow to take the stacks of all programs of a busy machine.
    let cut = cut_during_a_storm(false, |builder, _| builder.system_wide().ring_bytes(1 << 25));
    let count = cut.map(|(intervals, _)| intervals.len());
    assert!(count.is_none_or(|count| count >= 2), "two intervals at least: {count:?}");
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn memory_does_not_grow_with_the_number_of_cuts() {
    // In a process of its own: other tests use memory too.
    if !testkit::is_alone("cut::storm::memory_does_not_grow_with_the_number_of_cuts") {
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
            let stacks = interval.model().recording.task_stacks.len();
            assert!(stacks < 10, "{stacks} stacks of a process that sleeps");
        }
        resident.push(resident_kib());
    }
    println!("resident after each 20 cuts: {resident:?} KiB");
    assert!(resident[5] < resident[1] + (4 << 10), "{resident:?}");
}
