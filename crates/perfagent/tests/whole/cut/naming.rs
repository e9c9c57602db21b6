//! Names are found behind the cuts, while the capture goes on.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use perfagent::symbol_source::{Answer, Request, SymbolSource};
use perfagent::{Agent, AgentBuilder, Mode, Recording, Rotation};
use testkit::Process;

use super::sums::figure;
use crate::started::started;

const EVERY: Duration = Duration::from_millis(200);
const CUTS: usize = 8;
/// Set in the process that runs [`the_target_of_other_tests`].
const TARGET: &str = "PERF_AGENT_TEST_TARGET";

/// A process whose code is in a file with much debug information: this test program.
fn large_target() -> Process {
    let mut target = testkit::own_test("cut::naming::the_target_of_other_tests");
    let target = target.env(TARGET, "1").stdin(Stdio::null()).stdout(Stdio::null());
    Process::start(target.stderr(Stdio::null())).unwrap()
}

/// A running capture of that process, which ends when it is dropped. `None` without the privileges for it.
fn capture_of_large_target() -> Option<(Process, Agent)> {
    capture_with(|builder| builder)
}

fn capture_with(options: impl FnOnce(AgentBuilder) -> AgentBuilder) -> Option<(Process, Agent)> {
    let target = large_target();
    let builder = Agent::builder().pid(target.pid()).with_cpu_profile().sample_rate(999);
    let agent = options(builder).build().unwrap();
    started(&agent).then_some((target, agent))
}

/// Holds up the search for names until it is allowed, and knows none.
struct Gate(Arc<AtomicBool>);

impl SymbolSource for Gate {
    fn name(&self) -> &str {
        "gate"
    }

    fn lookup(&mut self, _: &Request) -> Answer {
        testkit::until("names may be found", || self.0.load(Ordering::Relaxed));
        Answer::NotMine
    }
}

/// Cuts a capture periodically, and gives the place where its intervals are handed to.
fn rotate(agent: &Agent) -> (Rotation, Arc<Mutex<Vec<Recording>>>) {
    let handed = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&handed);
    let rotation = agent.rotate(EVERY, move |interval| theirs.lock().unwrap().push(interval)).unwrap();
    (rotation, handed)
}

#[test]
fn the_target_of_other_tests() {
    while std::env::var_os(TARGET).is_some() {
        let mut words: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for number in 0..1000u32 {
            words.entry(format!("{:x}", number % 97)).or_default().push(f64::from(number).sqrt());
        }
        let mut sums: Vec<(String, f64)> =
            words.into_iter().map(|(word, values)| (word, values.iter().sum())).collect();
        sums.sort_by(|a, b| a.1.total_cmp(&b.1));
        std::hint::black_box(&sums);
    }
}

#[track_caller]
fn assert_named(recording: &Recording) {
    let names = &recording.model().names;
    assert_eq!((recording.names_left(), names.outcome.abandoned), (0, 0));
    let [samples, named] = ["samples", "symbolized_pct"].map(|key| figure(recording, Mode::OnCpu, key));
    assert!(samples == 0.0 || named > 90.0, "{named} % of {samples} samples");
}

#[test]
fn cuts_do_not_wait_for_names() {
    let Some((_target, agent)) = capture_of_large_target() else { return };
    let (mut intervals, mut taken) = (Vec::new(), Vec::new());
    for cut in 0..CUTS {
        agent.wait(EVERY);
        let begun = Instant::now();
        intervals.push(agent.cut().unwrap());
        taken.push(begun.elapsed());
        if cut == 0 {
            assert!(intervals[0].names_left() > 0, "its names were found before it was cut");
        }
    }
    let begun = Instant::now();
    intervals.iter().for_each(assert_named);
    println!("cuts took {taken:?}; names came {:?} after the last one", begun.elapsed());
    // One may wait for a CPU.
    taken.sort();
    assert!(taken[CUTS / 2] < EVERY / 2, "{taken:?}");
    assert_named(agent.stop().unwrap().recording());
}

#[test]
fn a_rotation_hands_out_all_intervals_with_their_names_although_these_take_longer() {
    let Some((_target, agent)) = capture_of_large_target() else { return };
    let (rotation, handed) = rotate(&agent);
    agent.wait(EVERY * 10);
    let last = agent.stop().unwrap().recording().clone();
    drop(rotation);
    let intervals = std::mem::take(&mut *handed.lock().unwrap());
    assert!(intervals.len() >= 6, "{} intervals in the time of 10", intervals.len());
    let mut end_ns = None;
    for interval in intervals.iter().chain([&last]) {
        assert_named(interval);
        let span = interval.model().recording.span;
        if let Some(end_ns) = end_ns {
            assert!(i64::abs(span.start_ns - end_ns) < 1_000_000, "they follow one another");
        }
        end_ns = Some(span.start_ns + span.duration_ns as i64);
    }
    let mut lengths: Vec<_> =
        intervals.iter().map(|interval| interval.model().recording.span.duration_ns).collect();
    lengths.sort_unstable();
    println!("{} intervals of {lengths:?} ns", intervals.len());
    assert!(lengths[lengths.len() / 2] < EVERY.as_nanos() as u64 * 3 / 2, "{lengths:?}");
}

#[test]
fn the_names_of_one_interval_can_be_abandoned() {
    let may_be_found = Arc::new(AtomicBool::new(false));
    let gate = Gate(Arc::clone(&may_be_found));
    let Some((_target, agent)) = capture_with(|builder| builder.symbol_source(gate)) else { return };
    let mut cut = Recording::default();
    testkit::until("an interval has names to be found", || {
        agent.wait(EVERY);
        cut = agent.cut().unwrap();
        cut.names_left() > 0
    });
    let abandoned = cut;
    abandoned.abandon_symbolization();
    may_be_found.store(true, Ordering::Relaxed);
    agent.wait(EVERY);
    let other = agent.cut().unwrap();
    let outcome = &abandoned.model().names.outcome;
    assert!(outcome.abandoned > 0 && abandoned.names_left() == 0, "{outcome:?}");
    assert_ne!(figure(&abandoned, Mode::OnCpu, "samples"), 0.0, "samples of the abandoned interval");
    assert_named(&other);
    // The end of the capture does not wait for recordings that somebody holds.
    let held = agent.cut().unwrap();
    drop(agent.stop().unwrap());
    drop(agent);
    assert_named(&held);
}

#[test]
fn no_interval_is_lost_if_the_names_are_abandoned() {
    let Some((_target, agent)) = capture_of_large_target() else { return };
    let (rotation, handed) = rotate(&agent);
    agent.wait(EVERY * 5);
    agent.abandon_symbolization();
    let report = agent.stop().unwrap();
    drop(rotation);
    let mut intervals = std::mem::take(&mut *handed.lock().unwrap());
    intervals.push(report.recording().clone());
    let length: u64 = intervals.iter().map(|interval| interval.model().recording.span.duration_ns).sum();
    assert_eq!(u128::from(length), report.duration.as_nanos(), "{} intervals", intervals.len());
    let abandoned: u64 = intervals.iter().map(|interval| interval.model().names.outcome.abandoned).sum();
    assert!(abandoned > 0, "{} intervals", intervals.len());
}
