//! Waits, time on CPUs and samples at seams.

use std::collections::BTreeMap;
use std::time::Duration;

use perfagent::{Agent, AgentBuilder, Error, MemorySink, Mode, Recording};

use super::program::Program;
use super::sums::{Sums, assert_near, by_thread, check_samples, figure};
use crate::started::started;

const EVERY: Duration = Duration::from_millis(300);
const LENGTH: Duration = Duration::from_secs(4);

fn of_threads(program: &Program) -> AgentBuilder {
    let builder = Agent::builder().pid(program.pid()).with_cpu_profile().with_off_cpu_profile();
    builder.per_thread(true).sample_rate(499)
}

fn of_all_time(program: &Program) -> Agent {
    of_threads(program).wall_profile_to(MemorySink::new()).build().unwrap()
}

/// Cuts until the targets have ended, and stops. All intervals.
pub(super) fn cut_to_the_end(agent: &Agent, every: Duration) -> Vec<Recording> {
    let mut intervals = Vec::new();
    while agent.wait(every) == perfagent::Ended::Duration {
        match agent.cut() {
            Ok(interval) => intervals.push(interval),
            Err(Error::NotRunning) => break,
            Err(error) => panic!("{error}"),
        }
    }
    let last = agent.stop().unwrap().recording().clone();
    // What the agent used is that of the interval alone, also in the last one.
    let used = |interval: &Recording| interval.model().recording.accounting.cost.agent_elapsed_ns;
    let before: u64 = intervals.iter().map(used).sum();
    assert!(used(&last) < before, "{} and {before}", used(&last));
    intervals.push(last);
    intervals
}

fn of(threads: &BTreeMap<u32, String>, what: &str, sums: &BTreeMap<u32, Sums>) -> Vec<Sums> {
    let tids = threads.iter().filter(|(_, does)| *does == what).map(|(tid, _)| *tid);
    tids.map(|tid| sums.get(&tid).copied().unwrap_or_default()).collect()
}

#[test]
fn intervals_sum_to_what_a_capture_without_cuts_says() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut program) = Program::start(folder.path(), LENGTH) else { return };
    let (whole, agent) = (of_all_time(&program), of_all_time(&program));
    if !started(&whole) || !started(&agent) {
        return;
    }
    let threads = program.begin();
    let intervals = cut_to_the_end(&agent, EVERY);
    let whole = [whole.stop().unwrap().recording().clone()];
    assert!(intervals.len() >= 10, "{}", intervals.len());
    let (cut, uncut) = (by_thread(&intervals), by_thread(&whole));
    for (tid, what) in &threads {
        let (cut, uncut) = (cut[tid], uncut[tid]);
        println!("{what}: {cut:?} in {} intervals, {uncut:?} without cuts", intervals.len());
        assert_near(what, cut.waits as f64, uncut.waits as f64, 0.01, 2.0);
        assert_near(what, cut.off_cpu_ns as f64, uncut.off_cpu_ns as f64, 0.01, 1e6);
        assert_near(what, cut.on_cpu_ns as f64, uncut.on_cpu_ns as f64, 0.01, 1e6);
        // The clocks of the two captures do not tick at the same moments.
        let few = 10.0 + 2.0 * (uncut.samples as f64).sqrt();
        assert_near(what, cut.samples as f64, uncut.samples as f64, 0.01, few);
    }
    let total = |key| intervals.iter().map(|interval| figure(interval, Mode::Wall, key)).sum::<f64>();
    for key in ["wall.sum_ns", "samples"] {
        // One of them began a moment earlier, and the main thread waited meanwhile.
        let of_main = |sums: &BTreeMap<u32, Sums>| sums[&program.pid()].off_cpu_ns as f64;
        let samples = figure(&whole[0], Mode::OnCpu, "samples");
        let earlier = if key == "samples" {
            10.0 + 2.0 * samples.sqrt()
        } else {
            (of_main(&uncut) - of_main(&cut)).abs() + 1e6
        };
        assert_near(key, total(key), figure(&whole[0], Mode::Wall, key), 0.01, earlier);
    }
}

#[test]
fn each_interval_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut program) = Program::start(folder.path(), LENGTH) else { return };
    let agent = of_all_time(&program);
    if !started(&agent) {
        return;
    }
    let threads = program.begin();
    // All threads wait or run by then.
    agent.wait(EVERY);
    let before = agent.cut().unwrap();
    let mut intervals = cut_to_the_end(&agent, EVERY);
    let last = intervals.pop().unwrap();
    let mut end_ns = None;
    for interval in [&before].into_iter().chain(&intervals).chain([&last]) {
        check_samples(interval);
        let span = interval.model().recording.span;
        if let Some(end_ns) = end_ns {
            assert_near("begin", span.start_ns as f64, end_ns as f64, 0.0, 1e6);
        }
        end_ns = Some(span.start_ns + span.duration_ns as i64);
        // In the last one all threads may have ended.
        let [sum, expected] = ["wall.sum_ns", "wall.threads_ns"].map(|key| figure(interval, Mode::Wall, key));
        assert!(expected > 0.0 || std::ptr::eq(interval, &last), "{:?}", interval.ledger(Mode::Wall));
        assert_near("time of all threads", sum, expected, 0.0001, 1e6);
    }
    // The threads end in one of the last ones.
    let length_of = |interval: &Recording| interval.model().recording.span.duration_ns;
    let is_before_the_end = |interval: &&Recording| {
        let sums = by_thread(std::slice::from_ref(*interval));
        of(&threads, "blocked", &sums)[0].off_cpu_ns == length_of(interval)
    };
    let inner: Vec<_> = intervals.iter().take_while(is_before_the_end).collect();
    assert!(2 * inner.len() >= intervals.len(), "{} of {} intervals", inner.len(), intervals.len());
    for interval in inner {
        let length = length_of(interval);
        let sums = by_thread(std::slice::from_ref(interval));
        for (tid, what) in &threads {
            let sums = sums[tid];
            assert_near(what, (sums.on_cpu_ns + sums.off_cpu_ns) as f64, length as f64, 0.0001, 1e6);
        }
    }
}

#[test]
fn the_least_length_of_a_wait_is_that_of_the_whole_wait() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut program) = Program::start(folder.path(), LENGTH) else { return };
    let agent = of_threads(&program).min_block(Duration::from_millis(500)).build().unwrap();
    if !started(&agent) {
        return;
    }
    let threads = program.begin();
    let intervals = cut_to_the_end(&agent, EVERY);
    let sums = by_thread(&intervals);
    println!("{sums:?} of {threads:?}");
    for sleeper in of(&threads, "sleeps", &sums) {
        // Six waits of 700 ms begin within 4 s; on a busy machine, which wakes them late, five.
        assert!((5..=6).contains(&sleeper.waits), "{sums:?}");
        // The last wait begins within 4 s.
        assert!((4_000_000_000..4_900_000_000).contains(&sleeper.off_cpu_ns), "{sums:?}");
    }
    let naps = of(&threads, "naps", &sums)[0];
    assert_eq!((naps.waits, naps.off_cpu_ns), (0, 0), "{sums:?}");
    let blocked = of(&threads, "blocked", &sums)[0];
    assert_eq!(blocked.waits, 1);
    assert_near("blocked", blocked.off_cpu_ns as f64, LENGTH.as_nanos() as f64, 0.05, 0.0);
    let skipped: f64 = intervals.iter().map(|i| figure(i, Mode::OffCpu, "skipped.min_block")).sum();
    assert!(skipped > 30.0, "{skipped}");
    intervals.iter().for_each(check_samples);
}
