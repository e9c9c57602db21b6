//! Metrics by the library: states of the agent, exporters, profiles to memory. Without privileges they skip and say so.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use perfagent::{
    Agent, AgentBuilder, BoxError, Ended, Error, JsonExporter, MemorySink, MetricsExporter, MetricsSnapshot,
    ProcessMetrics,
};
use testkit::Process;

use crate::started::{is_refusal, started};

/// A process that sleeps and wakes all the time, until it is dropped.
struct Napper(Process);

impl Napper {
    fn start() -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", "while sleep 0.005; do :; done"]).stdin(Stdio::null());
        Self(Process::start(&mut shell).unwrap())
    }

    fn watched(&self) -> AgentBuilder {
        Agent::builder().pid(self.0.pid())
    }
}

struct Counts(Arc<AtomicUsize>);

impl MetricsExporter for Counts {
    fn name(&self) -> &str {
        "counts"
    }

    fn export(&self, snapshot: &MetricsSnapshot) -> Result<(), BoxError> {
        assert!(!snapshot.system_wide);
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

struct Fails;

impl MetricsExporter for Fails {
    fn name(&self) -> &str {
        "fails"
    }

    fn export(&self, _: &MetricsSnapshot) -> Result<(), BoxError> {
        Err("the disk is full".into())
    }
}

struct Panics;

impl MetricsExporter for Panics {
    fn name(&self) -> &str {
        "panics"
    }

    fn export(&self, _: &MetricsSnapshot) -> Result<(), BoxError> {
        panic!("an exporter of this test")
    }
}

/// What an exporter writes, seen from outside.
#[derive(Clone, Default)]
struct Shown(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Shown {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn metrics_in_each_state() {
    let napper = Napper::start();
    let agent = napper.watched().pmu().build().unwrap();
    assert!(matches!(agent.metrics(), Err(Error::NotStarted)));
    if !started(&agent) {
        return;
    }
    // From the first moment on, and a new one each second.
    let first = agent.metrics().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let second = loop {
        agent.wait(Duration::from_millis(100));
        let now = agent.metrics().unwrap();
        if now.total_samples > first.total_samples && now.duration > Duration::from_millis(300) {
            break now;
        }
        assert!(Instant::now() < deadline, "{now:?}");
    };
    let report = agent.stop().unwrap();
    let last = agent.metrics().unwrap();
    let totals = (second.total_samples, last.total_samples);
    assert!(totals.0 <= totals.1, "samples do not become fewer: {totals:?}");
    let reported = report.pmu.unwrap();
    assert_eq!((reported.total_samples, reported.duration), (last.total_samples, last.duration));
    assert_eq!(reported.aggregate.context_switches.total(), reported.total_samples);
    agent.close();
    assert!(matches!(agent.metrics(), Err(Error::Closed)));
}

#[test]
fn metrics_that_nobody_asked_for() {
    let napper = Napper::start();
    let agent = napper.watched().with_off_cpu_profile().build().unwrap();
    assert!(matches!(agent.metrics(), Err(Error::NotStarted)));
    if !started(&agent) {
        return;
    }
    assert!(matches!(agent.metrics(), Err(Error::PmuNotEnabled)));
    assert!(agent.stop().unwrap().pmu.is_none());
    assert!(matches!(agent.metrics(), Err(Error::PmuNotEnabled)));
    agent.close();
    assert!(matches!(agent.metrics(), Err(Error::Closed)));
}

#[test]
fn exporters_are_called_in_between_and_at_the_end_whatever_others_do() {
    let napper = Napper::start();
    for interval in [None, Some(Duration::from_millis(100))] {
        let calls = Arc::new(AtomicUsize::new(0));
        let mut builder = napper.watched().pmu().metrics_exporter(Fails).metrics_exporter(Panics);
        builder = builder.metrics_exporter(Counts(Arc::clone(&calls)));
        if let Some(interval) = interval {
            builder = builder.metrics_interval(interval);
        }
        let agent = builder.build().unwrap();
        let begun = Instant::now();
        if !started(&agent) {
            return;
        }
        let least_before = if interval.is_some() { 4 } else { 0 };
        std::thread::sleep(Duration::from_millis(500));
        while calls.load(Ordering::Relaxed) < least_before || agent.metrics().unwrap().total_samples == 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "{calls:?} calls");
            std::thread::sleep(Duration::from_millis(20));
        }
        let before = calls.load(Ordering::Relaxed);
        let report = agent.stop().unwrap();
        let all = calls.load(Ordering::Relaxed);
        // One at the end, and one each time that the interval is over.
        let most = 1 + interval.map_or(0, |interval| begun.elapsed().as_millis() / interval.as_millis());
        assert!(all > before && all as u128 <= most, "{before} calls, then {all}, at most {most}");
        assert_eq!(interval.is_some(), before > 0);
        for expected in
            ["the metrics exporter fails failed: the disk is full", "the metrics exporter panics panicked"]
        {
            let warnings = report.warnings.iter().filter(|warning| warning.message == expected);
            assert_eq!(warnings.count(), 1, "{:?}", report.warnings);
        }
        assert_ne!(report.pmu.unwrap().total_samples, 0);
    }
}

/// Never returns.
struct Hangs;

impl MetricsExporter for Hangs {
    fn name(&self) -> &str {
        "hangs"
    }

    fn export(&self, _: &MetricsSnapshot) -> Result<(), BoxError> {
        loop {
            std::thread::park();
        }
    }
}

#[derive(Clone, Default)]
struct Keeps(Arc<Mutex<Vec<(u64, Duration)>>>);

impl MetricsExporter for Keeps {
    fn name(&self) -> &str {
        "keeps"
    }

    fn export(&self, snapshot: &MetricsSnapshot) -> Result<(), BoxError> {
        // Slow, but not for ever.
        std::thread::sleep(Duration::from_millis(300));
        self.0.lock().unwrap().push((snapshot.total_samples, snapshot.duration));
        Ok(())
    }
}

#[test]
fn an_exporter_that_does_not_return_is_left_behind() {
    let napper = Napper::start();
    for interval in [Duration::ZERO, Duration::from_millis(50)] {
        let kept = Keeps::default();
        let builder = napper.watched().pmu().metrics_exporter(Hangs).metrics_exporter(kept.clone());
        let agent = builder.metrics_interval(interval).build().unwrap();
        if !started(&agent) {
            return;
        }
        agent.wait(Duration::from_millis(500));
        let begun = Instant::now();
        while !interval.is_zero() && kept.0.lock().unwrap().is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(30), "nothing is exported");
            std::thread::sleep(Duration::from_millis(20));
        }
        let (sender, stopped) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(agent.stop().unwrap()).unwrap());
        let report = stopped.recv_timeout(Duration::from_secs(60)).expect("stop returns");
        let left: Vec<_> = report.warnings.iter().filter(|w| w.message.contains("left behind")).collect();
        assert!(left.len() == 1 && left[0].message.contains("exporter hangs"), "{:?}", report.warnings);
        let (kept, last) = (kept.0.lock().unwrap(), report.pmu.unwrap());
        assert_eq!(kept.last(), Some(&(last.total_samples, last.duration)));
        assert_eq!(kept.len() > 1, !interval.is_zero(), "{kept:?}");
    }
}

#[test]
fn metrics_of_a_start_that_was_cancelled_are_empty() {
    let napper = Napper::start();
    let json = Shown::default();
    let builder = napper.watched().pmu().metrics_exporter(JsonExporter::new(json.clone()));
    let agent = builder.build().unwrap();
    let cancel = perfagent::CancelToken::new();
    cancel.cancel();
    match agent.start_cancellable(&cancel) {
        Err(Error::Cancelled) => {}
        Err(error) if is_refusal(&error) => return,
        other => panic!("{other:?}"),
    }
    let check = || {
        let metrics = agent.metrics().unwrap();
        assert_eq!((metrics.total_samples, metrics.duration), (0, Duration::ZERO));
        assert!(!metrics.system_wide && metrics.pids == [napper.0.pid()], "{metrics:?}");
    };
    check();
    let report = agent.stop().unwrap();
    // What was not measured is not told; what perf-agent has used itself was.
    for (key, told) in [("processes", false), ("unreadable_processes", false), ("bpf_memory_kib", false)]
        .into_iter()
        .chain([("agent_cpu_ms", true), ("agent_rss_peak_kib", true)])
    {
        let entries = report.ledgers[0].entries();
        assert_eq!(entries.iter().any(|(k, value)| k == key && value != "0"), told, "{key}: {entries:?}");
    }
    assert_eq!(report.pmu.unwrap().total_samples, 0);
    check();
    let text = String::from_utf8(json.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text.matches("perf-agent.pmu/1").count(), 1, "{text}");
}

#[test]
fn the_cpus_that_are_sampled_are_said_and_counters_are_of_all() {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    if !online.starts_with("0-") {
        testkit::skip!("CPUs {online}");
    }
    let builder = Agent::builder().system_wide().cpus([0]).cpu_profile_to(MemorySink::new()).pmu();
    let agent = builder.option("pmu-events", "cpu-clock").build().unwrap();
    let around = Instant::now();
    if !started(&agent) {
        return;
    }
    let inside = Instant::now();
    agent.wait(Duration::from_millis(1500));
    let inside = inside.elapsed();
    agent.abandon_symbolization();
    let report = agent.stop().unwrap();
    let around = around.elapsed();
    let entries = report.ledgers[0].entries();
    assert!(entries.contains(&("cpus".to_owned(), "0".to_owned())), "{entries:?}");
    let all = report.pmu.unwrap();
    let clock = all.aggregate.counters.events[0].state.scaled_value().unwrap() as f64;
    // A quota or an affinity leaves counters alone.
    let there = events::online_cpus().unwrap().len() as f64;
    let (least, most) = (0.98 * there * inside.as_nanos() as f64, 1.02 * there * around.as_nanos() as f64);
    assert!((least..=most).contains(&clock), "{clock} ns, not {least} to {most} of {there} CPUs");
    assert!(all.processes_profiled.is_some_and(|processes| processes > 1), "{:?}", all.processes_profiled);
}

#[test]
fn processes_that_ended_keep_their_figures() {
    let agent = Agent::builder().system_wide().pmu().per_pid().option("pmu-events", "task-clock");
    let agent = agent.build().unwrap();
    if !started(&agent) {
        return;
    }
    let run = |_| {
        let mut child = Command::new("sh").args(["-c", "sleep 0.001"]).spawn().unwrap();
        child.wait().unwrap();
        child.id()
    };
    let ended: Vec<u32> = (0..20).map(run).collect();
    // More than once the figures are taken out of the kernel meanwhile.
    agent.wait(Duration::from_millis(2500));
    let deadline = Instant::now() + Duration::from_secs(30);
    let before = loop {
        let before = agent.metrics().unwrap();
        assert!(Instant::now() < deadline, "{:?}", before.processes.keys());
        if ended.iter().all(|pid| before.processes.contains_key(pid)) {
            break before;
        }
        agent.wait(Duration::from_millis(100));
    };
    agent.wait(Duration::from_millis(1100));
    let report = agent.stop().unwrap().pmu.unwrap();
    for pid in ended {
        let (before, last) = (&before.processes[&pid], &report.processes[&pid]);
        // It waits for its child, and ends.
        assert!(before.sample_count >= 2 && before.on_cpu_ns_total > 0, "{before:?}");
        assert_eq!(before, last);
    }
    for snapshot in [before, report] {
        let (incomplete, processes) = (snapshot.incomplete, snapshot.by_on_cpu_time());
        let sum = |figure: fn(&ProcessMetrics) -> u64| processes.iter().map(|p| figure(p)).sum::<u64>();
        assert_eq!(sum(|process| process.sample_count), snapshot.total_samples);
        assert_eq!(sum(|process| process.on_cpu_ns_total), snapshot.aggregate.on_cpu_ns_total);
        assert_eq!(sum(|process| process.migrations), snapshot.aggregate.migrations);
        let slices = sum(|process| process.on_cpu.map_or(0, |slices| slices.count));
        assert_eq!(slices, snapshot.aggregate.on_cpu.unwrap().count);
        assert_eq!((incomplete.unlisted_processes, incomplete.unplaced_durations), (0, 0));
        assert_eq!(snapshot.processes_profiled, Some(processes.len() as u64));
    }
}

#[test]
fn a_profile_and_metrics_to_memory() {
    let napper = Napper::start();
    let (sink, json) = (MemorySink::new(), Shown::default());
    let builder = napper.watched().off_cpu_profile_to(sink.clone()).pmu();
    let agent = builder.metrics_exporter(JsonExporter::new(json.clone())).build().unwrap();
    if !started(&agent) {
        return;
    }
    // Some of these switches end a wait.
    let has_waited = || agent.metrics().unwrap().total_samples >= 20;
    testkit::until("20 switches", || {
        has_waited() || agent.wait(Duration::from_millis(20)) != Ended::Duration
    });
    let report = agent.stop().unwrap();
    assert!(report.outputs.iter().all(|output| output.result.is_ok() && output.path.is_none()));
    let bytes = sink.take();
    assert_eq!(report.outputs[0].bytes, bytes.len() as u64);
    let profile = formats::pprof::decode(&bytes).unwrap();
    assert!(profile.samples.iter().any(|sample| sample.values[1] > 0), "{} samples", profile.samples.len());
    let text = String::from_utf8(json.0.lock().unwrap().clone()).unwrap();
    let samples = format!("\"samples\": {}", report.pmu.unwrap().total_samples);
    assert!(text.contains("perf-agent.pmu/1") && text.contains(&samples), "{text}");
}
