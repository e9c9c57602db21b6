//! The JSON report. New versions only add keys.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::missing;
use crate::{Counter, CounterState, CounterUnit, Incomplete, LatencyStats, MetricsSnapshot, ProcessMetrics};

const SCHEMA: &str = "perf-agent.pmu/1";

/// The snapshot as one JSON object, with a newline after it.
#[must_use]
pub fn json_report(snapshot: &MetricsSnapshot) -> String {
    let processes = snapshot.by_on_cpu_time().into_iter().map(Process::of).collect();
    let report = Report {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        start_ns: since_epoch_ns(snapshot.start),
        duration_ns: u64::try_from(snapshot.duration.as_nanos()).unwrap_or(u64::MAX),
        scope: if snapshot.system_wide { "system" } else { "pid" },
        pids: &snapshot.pids,
        processes_profiled: snapshot.processes_profiled,
        total: Process::of(&snapshot.aggregate),
        processes: snapshot.per_pid.then_some(processes),
        incomplete: Missing(&snapshot.incomplete),
    };
    let mut json =
        serde_json::to_string_pretty(&report).expect("strings as keys and finite numbers always serialize");
    json.push('\n');
    json
}

fn since_epoch_ns(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    version: &'static str,
    start_ns: u64,
    duration_ns: u64,
    scope: &'static str,
    pids: &'a [u32],
    #[serde(skip_serializing_if = "Option::is_none")]
    processes_profiled: Option<u64>,
    total: Process<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<Vec<Process<'a>>>,
    incomplete: Missing<'a>,
}

#[derive(Serialize)]
struct Process<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comm: Option<&'a str>,
    samples: u64,
    on_cpu_ns_total: u64,
    on_cpu: Option<Latency>,
    runqueue: Option<Latency>,
    context_switches: Switches,
    migrations: u64,
    counters: Vec<Count<'a>>,
    ipc: Option<f64>,
    cache_misses_per_1k: Option<f64>,
}

#[derive(Serialize)]
struct Latency {
    count: u64,
    min_ns: u64,
    max_ns: u64,
    mean_ns: f64,
    p50_ns: u64,
    p95_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
}

#[derive(Serialize)]
struct Switches {
    preempted: u64,
    voluntary: u64,
    io_wait: u64,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Count<'a> {
    Counted { name: &'a str, unit: &'static str, value: u64, enabled_ns: u64, running_ns: u64, scaled: bool },
    Unavailable { name: &'a str, unavailable: &'a str },
}

struct Missing<'a>(&'a Incomplete);

impl Serialize for Missing<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, number, _) in missing(self.0) {
            map.serialize_entry(key, &number)?;
        }
        map.end()
    }
}

impl<'a> Process<'a> {
    fn of(process: &'a ProcessMetrics) -> Self {
        let switches = &process.context_switches;
        Self {
            pid: process.pid,
            comm: process.comm.as_deref(),
            samples: process.sample_count,
            on_cpu_ns_total: process.on_cpu_ns_total,
            on_cpu: process.on_cpu.as_ref().map(Latency::of),
            runqueue: process.runqueue.as_ref().map(Latency::of),
            context_switches: Switches {
                preempted: switches.preempted,
                voluntary: switches.voluntary,
                io_wait: switches.io_wait,
            },
            migrations: process.migrations,
            counters: process.counters.events.iter().map(Count::of).collect(),
            ipc: process.counters.ipc(),
            cache_misses_per_1k: process.counters.cache_misses_per_1k(),
        }
    }
}

impl Latency {
    fn of(stats: &LatencyStats) -> Self {
        Self {
            count: stats.count,
            min_ns: stats.min,
            max_ns: stats.max,
            mean_ns: stats.mean,
            p50_ns: stats.p50,
            p95_ns: stats.p95,
            p99_ns: stats.p99,
            p999_ns: stats.p999,
        }
    }
}

impl<'a> Count<'a> {
    fn of(counter: &'a Counter) -> Self {
        let name = &counter.name;
        match (&counter.state, counter.state.scaled_value()) {
            (CounterState::NotAvailable { reason }, _) => Self::Unavailable { name, unavailable: reason },
            (&CounterState::Counted { enabled_ns, running_ns, .. }, Some(value)) => Self::Counted {
                name,
                unit: match counter.unit {
                    CounterUnit::Events => "events",
                    CounterUnit::Nanoseconds => "ns",
                },
                value,
                enabled_ns,
                running_ns,
                scaled: running_ns < enabled_ns,
            },
            _ => Self::Unavailable { name, unavailable: "not counted" },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::fixture;
    use crate::{HardwareCounters, Scope};
    use serde_json::{Value, json};

    fn parsed(snapshot: &MetricsSnapshot) -> Value {
        serde_json::from_str(&json_report(snapshot)).unwrap()
    }

    #[test]
    fn a_report_has_all_keys_of_the_schema() {
        let mut snapshot = fixture::snapshot(Scope::Pids(vec![10, 11]), vec![fixture::process(10)]);
        snapshot.incomplete.lost_switches = 4;
        let mut report = parsed(&snapshot);
        for (key, ratio) in [("ipc", 1.9), ("cache_misses_per_1k", 0.014_736)] {
            let value = report["total"].as_object_mut().unwrap().remove(key).unwrap().as_f64().unwrap();
            assert!((value - ratio).abs() < 1e-6, "{key} {value}");
        }
        assert_eq!(
            report,
            json!({
                "schema": "perf-agent.pmu/1",
                "version": env!("CARGO_PKG_VERSION"),
                "start_ns": 1_700_000_000_000_000_000u64,
                "duration_ns": 10_000_000_000u64,
                "scope": "pid",
                "pids": [10, 11],
                "total": {
                    "samples": 1200,
                    "on_cpu_ns_total": 8_025_000,
                    "on_cpu": {
                        "count": 3, "min_ns": 4000, "max_ns": 8_020_000, "mean_ns": 2_675_000.0,
                        "p50_ns": 4015, "p95_ns": 8_020_000, "p99_ns": 8_020_000, "p999_ns": 8_020_000,
                    },
                    "runqueue": null,
                    "context_switches": {"preempted": 300, "voluntary": 840, "io_wait": 60},
                    "migrations": 7,
                    "counters": [
                        {"name": "cycles", "unit": "events", "value": 1_234_567_890u64,
                            "enabled_ns": 9, "running_ns": 9, "scaled": false},
                        {"name": "instructions", "unit": "events", "value": 2_345_678_901u64,
                            "enabled_ns": 9, "running_ns": 9, "scaled": false},
                        {"name": "cache-misses", "unit": "events", "value": 34567,
                            "enabled_ns": 9, "running_ns": 9, "scaled": false},
                    ],
                },
                "incomplete": {
                    "untracked_threads": 0, "lost_switches": 4, "unknown_durations": 0, "unplaced_durations": 0,
                    "uncounted_threads": 0, "uncounted_cpus": 0, "failed_reads": 0,
                    "lost_processes": 0, "unlisted_processes": 0,
                },
            })
        );
    }

    #[test]
    fn processes_are_listed_with_per_pid_only() {
        let scope = Scope::SystemWide { per_pid: true };
        let mut snapshot = fixture::snapshot(scope, vec![fixture::process(7), fixture::process(9)]);
        let large = i64::MAX as u64;
        snapshot.processes.get_mut(&9).unwrap().on_cpu_ns_total = large;
        let report = parsed(&snapshot);
        assert_eq!((&report["scope"], &report["processes_profiled"]), (&json!("system"), &json!(2)));
        assert_eq!(report["processes"][0]["pid"], 9);
        assert_eq!(report["processes"][0]["comm"], "worker");
        assert_eq!(report["processes"][0]["on_cpu_ns_total"], large, "exact");
        assert_eq!(report["processes"][1]["pid"], 7);
        let report = parsed(&fixture::snapshot(Scope::SystemWide { per_pid: false }, Vec::new()));
        assert_eq!(report.get("processes"), None);
        assert_eq!((&report["total"]["on_cpu"], &report["total"].get("pid")), (&Value::Null, &None));
    }

    #[test]
    fn an_event_without_a_count_has_no_value() {
        let mut snapshot = fixture::snapshot(Scope::Pids(vec![1]), Vec::new());
        snapshot.aggregate.counters = HardwareCounters::new(vec![
            Counter::new("cycles", CounterUnit::Events, CounterState::not_available("ENOENT")),
            Counter::new("instructions", CounterUnit::Events, CounterState::NotCounted),
            Counter::new("task-clock", CounterUnit::Nanoseconds, CounterState::read(10, 100, 50)),
        ]);
        let total = &parsed(&snapshot)["total"];
        assert_eq!(
            total["counters"],
            json!([
                {"name": "cycles", "unavailable": "ENOENT"},
                {"name": "instructions", "unavailable": "not counted"},
                {"name": "task-clock", "unit": "ns", "value": 20, "enabled_ns": 100, "running_ns": 50, "scaled": true},
            ])
        );
        assert_eq!((&total["ipc"], &total["cache_misses_per_1k"]), (&Value::Null, &Value::Null));
    }
}
