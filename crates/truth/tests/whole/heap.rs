//! Allocations: objects and bytes, allocated and in use, as the program counts them itself. Samples of allocators: within their statistical error, and
//! beside what the allocator tells of the same samples.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use testkit::skipped;
use truth::frame::Capture;
use truth::profiler::read_pprof;
use truth::programs::{SampledHeap, Scheduling};
use truth::session::{Finished, Session, Subject};
use truth::target::Target;

use crate::Setup;

/// Objects, bytes, objects in use, bytes in use.
pub(crate) type Values = [i64; 4];

/// What the program has printed about its functions.
pub(crate) fn printed(lines: &[String]) -> BTreeMap<String, Values> {
    let site = |line: &String| {
        let mut words = line.strip_prefix("site ")?.split(' ');
        let name = words.next()?.to_owned();
        let values: Vec<i64> = words.map(|word| word.parse().unwrap()).collect();
        Some((name, values.try_into().unwrap()))
    };
    lines.iter().filter_map(site).collect()
}

/// What a profile has of all stacks through a function.
pub(crate) fn of(capture: &Capture, function: &str) -> Values {
    let mut sums = [0; 4];
    for stack in capture.stacks.iter().filter(|stack| stack.has(function)) {
        sums.iter_mut().zip(&stack.values).for_each(|(sum, value)| *sum += value);
    }
    sums
}

#[test]
fn exact_allocations_are_those_that_the_program_counts_itself() {
    let Some(setup) = Setup::as_root(Setup::beside_others) else { return };
    let program = Scheduling::new(&setup.out).path("allocations").unwrap();
    let mut target = Target::start_command(Command::new(program).arg("2000")).unwrap();
    let options = ["--heap=exact", "--duration", "1h"];
    let mut session = Session::start(&setup.agent, &options, Subject::Process(target.pid())).unwrap();
    session.until_attached().unwrap();
    target.go().unwrap();
    let sites = printed(&target.lines_until("done").unwrap());
    session.stop().unwrap();
    let finished = session.finish().unwrap();
    let capture = finished.heap().unwrap();
    assert_eq!(sites.len(), 6, "{sites:?}");
    for (name, values) in &sites {
        assert!(values[0] >= 2000, "{name}");
        let stacks: Vec<_> =
            capture.stacks.iter().filter(|s| s.has(name)).map(|s| (s.display(), &s.values)).collect();
        assert_eq!(of(&capture, name), *values, "{name}: {stacks:#?}\n{:?}", capture.comments);
    }
    // The child's own object stays in use at its end; what it frees of its parent's stays in use in the parent.
    assert_eq!(of(&capture, "orphan"), [1, 777, 1, 777], "{:?}", capture.comments);
    assert_eq!(capture.ledger("lost"), Some("0"), "{:?}", capture.comments);
    let incomplete: Vec<_> = capture
        .stacks
        .iter()
        .filter(|s| !s.has("_start") && !s.has("clone3") && !s.has("__clone3"))
        .map(|s| s.display())
        .collect();
    assert_eq!(incomplete, [""; 0]);
}

#[test]
fn objects_of_a_memory_that_processes_share_are_freed_by_any_of_them() {
    let Some(setup) = Setup::as_root(Setup::beside_others) else { return };
    let program = Scheduling::new(&setup.out).path("one_memory").unwrap();
    let (lines, finished) = run(&setup, Command::new(program).arg("1000"), &["--heap=exact"]);
    let (capture, sites) = (finished.heap().unwrap(), printed(&lines));
    assert_eq!(sites.len(), 2, "{lines:?}");
    for (name, values) in &sites {
        assert_eq!(of(&capture, name), *values, "{name}: {:?}", capture.comments);
    }
    assert_eq!(capture.ledger("heap.frees_unseen"), None, "{:?}", capture.comments);
}

/// Whether an estimate is within five standard deviations, where a sample is taken each `rate` bytes.
fn is_near(estimate: i64, truth: i64, bytes: i64, rate: f64) -> bool {
    let relative = 5.0 * (rate / bytes.max(1) as f64).sqrt();
    (estimate - truth).abs() as f64 <= relative * truth as f64 + 1.0
}

/// Five standard deviations of what rounding adds: a sample stands for whole objects and a fraction of one, which counts at random.
fn rounding(samples: f64, fraction: f64) -> f64 {
    5.0 * (samples * fraction * (1.0 - fraction)).sqrt()
}

/// The most that rounding adds to the objects in use: a fraction counts once when it is allocated and once when it is freed.
fn rounding_in_use(allocated_bytes: i64, rate: f64) -> i64 {
    rounding(2.0 * allocated_bytes as f64 / rate, 0.5) as i64
}

/// Rounding of allocated objects of one size: all samples have the same fraction.
fn rounding_of(objects: i64, bytes: i64, rate: f64) -> f64 {
    let (objects, bytes) = (objects as f64, bytes as f64);
    let weight = 1.0 / (1.0 - (-bytes / objects / rate).exp());
    rounding(objects / weight, weight.fract())
}

/// Runs a program that samples, and records it between its first line and `done`. Its lines, and what was recorded.
pub(crate) fn run(setup: &Setup, command: &mut Command, options: &[&str]) -> (Vec<String>, Finished) {
    let mut target = Target::start_command(command).unwrap();
    let options = [options, &["--duration", "1h"]].concat();
    let mut session = Session::start(&setup.agent, &options, Subject::Process(target.pid())).unwrap();
    session.until_attached().unwrap();
    target.go().unwrap();
    let lines = target.lines_until("done").unwrap();
    session.stop().unwrap();
    (lines, session.finish().unwrap())
}

/// That all values of all functions are estimates of what the program says.
fn check_estimates(capture: &Capture, lines: &[String], rate: f64) {
    let sites = printed(lines);
    assert_eq!(sites.len(), 3, "{lines:?}");
    for (name, truth) in &sites {
        let found = of(capture, name);
        for (value, bytes) in [(0, 1), (1, 1), (2, 3), (3, 3)] {
            let slack = if value == 2 { rounding_in_use(truth[1], rate) } else { 0 };
            let distance = (found[value] - truth[value]).abs().saturating_sub(slack).max(0);
            assert!(
                is_near(truth[value] + distance, truth[value], truth[bytes], rate),
                "{name}: {found:?}, not {truth:?}\n{:?}",
                capture.comments
            );
        }
    }
    assert_eq!(capture.ledger("heap.shows"), Some("totals, estimated from samples"));
    assert_eq!(capture.ledger("lost"), Some("0"), "{:?}", capture.comments);
    assert_eq!(capture.ledger("heap.unreadable"), None, "{:?}", capture.comments);
}

/// Go's samples, beside the profile that the program makes of the same samples.
fn check_go(setup: &Setup, version: Option<&'static str>) {
    let program = SampledHeap::Go(version);
    if let Some(reason) = program.missing() {
        return skipped(reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own.pb.gz");
    let mut command = Command::new(program.path(&setup.out).unwrap());
    let (lines, finished) = run(setup, command.arg(&own), &["--heap"]);
    let capture = finished.heap().unwrap();
    check_estimates(&capture, &lines, 512.0 * 1024.0);
    assert_eq!(capture.ledger("heap.sampler"), Some("go"));
    let own = read_pprof(&own).unwrap();
    for name in ["main.churn", "main.keep", "main.large"] {
        let [ours, goes] = [of(&capture, name), of(&own, name)];
        let rounded = rounding_of(goes[0], goes[1], 512.0 * 1024.0);
        for (value, rounded) in [rounded, 0.0, 2.0_f64.sqrt() * rounded, 0.0].into_iter().enumerate() {
            // Go rounds by stack.
            let most = 0.01 * goes[value] as f64 + 2.0 + rounded;
            assert!(
                (ours[value] - goes[value]).abs() as f64 <= most,
                "{version:?} {name}: {ours:?}, not {goes:?}"
            );
        }
    }
}

#[test]
fn the_samples_of_go_are_those_of_its_own_profile() {
    let Some(setup) = Setup::as_root(Setup::beside_others) else { return };
    [None, Some("go1.18.10"), Some("go1.27.4")].into_iter().for_each(|version| check_go(&setup, version));
}

#[test]
fn go_without_its_profiler_has_its_calls_recorded() {
    let Some(setup) = Setup::as_root(Setup::beside_others) else { return };
    let program = SampledHeap::GoWithout;
    if let Some(reason) = program.missing() {
        return skipped(reason);
    }
    let mut command = Command::new(program.path(&setup.out).unwrap());
    let (lines, finished) = run(&setup, &mut command, &["--heap=exact"]);
    let capture = finished.heap().unwrap();
    for (name, truth) in printed(&lines) {
        let [objects, bytes, live, live_bytes] = of(&capture, &name);
        // The runtime allocates for itself now and then, as when a collection begins.
        let more = [objects - truth[0], (bytes - truth[1]) / 1024];
        assert!(more.iter().all(|more| (0..20).contains(more)), "{name}: {more:?} {:?}", capture.comments);
        assert_eq!([live, live_bytes], [0, 0]);
    }
    assert_eq!(capture.ledger("heap.shows"), Some("totals"));
    assert!(finished.messages.contains("not what is in use"), "{}", finished.messages);
}

#[test]
fn what_otel_memory_tells_is_recorded() {
    let Some(setup) = Setup::as_root(Setup::beside_others) else { return };
    let program = SampledHeap::OtelMemory.path(&setup.out).unwrap();
    let (lines, finished) = run(&setup, Command::new(program).arg("300"), &["--heap"]);
    let capture = finished.heap().unwrap();
    check_estimates(&capture, &lines, 65536.0);
    assert!(lines.iter().any(|line| line == "counter 1"), "{lines:?}");
    for line in lines.iter().filter_map(|line| line.strip_prefix("told ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, told, live] = words.as_slice() else { panic!("{line}") };
        let found = of(&capture, name);
        assert_eq!([found[1].to_string(), found[3].to_string()], [*told, *live], "{name}");
    }
}

#[test]
fn the_samples_of_jemalloc_are_recorded() {
    let Some(setup) = Setup::as_root(Setup::alone) else { return };
    if let Some(reason) = SampledHeap::Jemalloc.missing() {
        return skipped(reason);
    }
    let program = SampledHeap::Jemalloc.path(&setup.out).unwrap();
    let command = |setting: &str| {
        let mut command = Command::new(Path::new(&program));
        command.arg("300").env("MALLOC_CONF", setting);
        command
    };
    // Four times as many samples would cost the program more than they may.
    let (lines, finished) = run(&setup, &mut command("prof:true,lg_prof_sample:18"), &["--heap"]);
    let capture = finished.heap().unwrap();
    check_estimates(&capture, &lines, 262_144.0);
    assert_eq!(capture.ledger("heap.sampler"), Some("jemalloc"));
    // It samples only if it is asked to.
    let (_, finished) = run(&setup, &mut command("prof:false"), &["--heap"]);
    assert_eq!(finished.heap().unwrap().ledger("heap.sampler"), None);
}
