//! Scheduler metrics: programs whose switches are counted, and the report of `--pmu` about them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::blocking::{Meter, read_meters};
use crate::programs::Scheduling;
use crate::session::{Session, Subject};
use crate::target::Target;

/// Counters that a machine without hardware counters has too.
pub const COUNTERS: &str = "page-faults,context-switches,task-clock";

/// A program whose switches are counted. All wait for the runner's line.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The program, and for the table.
    pub name: &'static str,
    arguments: fn(ms: u64, folder: &str) -> Vec<String>,
    /// How its threads' names begin.
    threads: &'static [&'static str],
}

/// Two threads preempting each other; one woken every millisecond; many that block in many ways.
pub const LOADS: &[Load] = &[
    Load { name: "hogs", arguments: |ms, _| vec![ms.to_string(), "wait".into()], threads: &["hog"] },
    Load {
        name: "pacer",
        arguments: |ms, _| vec![ms.to_string(), "1".into(), "wait".into()],
        threads: &["pacer"],
    },
    Load {
        name: "blocking",
        arguments: |ms, folder| vec![ms.to_string(), folder.into(), "wait".into()],
        threads: &["blocking", "site_"],
    },
];

impl Load {
    /// Whether a thread of that name belongs to the program.
    #[must_use]
    pub fn has_thread(&self, name: &str) -> bool {
        self.threads.iter().any(|prefix| name.starts_with(prefix))
    }
}

/// The values of a report of `--pmu` that are compared.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Number of waits, median and longest in ns.
    pub runqueue: (u64, u64, u64),
    /// All waits together in ns.
    pub waited_ns: u64,
    /// Preempted, voluntary, waiting for I/O.
    pub switches: (u64, u64, u64),
    /// Number of slices and their total in ns.
    pub slices: (u64, u64),
    /// Switches, and slices with the waits before them, that are missing by the report.
    pub missing: u64,
    /// Counters by name.
    pub counters: Vec<(String, u64)>,
}

impl Report {
    /// Reads the JSON of one run.
    ///
    /// # Errors
    /// If something is missing.
    pub fn read(json: &Value) -> Result<Self> {
        let total = json.get("total").context("the report has no total")?;
        let number = |path: &str| {
            total.pointer(path).and_then(Value::as_u64).with_context(|| format!("no {path} in {total}"))
        };
        let counters = total.get("counters").and_then(Value::as_array).context("no counters")?;
        let counters = counters.iter().filter_map(|counter| {
            Some((counter.get("name")?.as_str()?.to_owned(), counter.get("value")?.as_u64()?))
        });
        let missing = |cause: &str| {
            let number = json.pointer("/incomplete").and_then(|causes| causes.get(cause)?.as_u64());
            number.with_context(|| format!("no number of {cause}"))
        };
        let mean_ns = total.pointer("/runqueue/mean_ns").and_then(Value::as_f64).context("no mean wait")?;
        Ok(Self {
            waited_ns: (mean_ns * number("/runqueue/count")? as f64) as u64,
            runqueue: (number("/runqueue/count")?, number("/runqueue/p50_ns")?, number("/runqueue/max_ns")?),
            switches: (
                number("/context_switches/preempted")?,
                number("/context_switches/voluntary")?,
                number("/context_switches/io_wait")?,
            ),
            slices: (number("/on_cpu/count")?, number("/on_cpu_ns_total")?),
            missing: missing("lost_switches")? + missing("unknown_durations")?,
            counters: counters.collect(),
        })
    }

    /// A counter's value.
    #[must_use]
    pub fn counter(&self, name: &str) -> Option<u64> {
        self.counters.iter().find(|(n, _)| n == name).map(|(_, value)| *value)
    }
}

/// A program and its report.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The report of perf-agent.
    pub report: Report,
    /// The program's own measurement, from the runner's line on.
    pub process: Meter,
    /// Its lines.
    pub lines: Vec<String>,
}

/// Runs perf-agent on a waiting program from before its work until its end.
///
/// # Errors
/// If one of them fails.
pub fn watch(agent: &Path, programs: &Scheduling, load: Load, ms: u64, options: &[&str]) -> Result<Watched> {
    let arguments = (load.arguments)(ms, &programs.out.display().to_string());
    let mut target = Target::start_command(Command::new(programs.path(load.name)?).args(arguments))?;
    let mut all = vec!["--pmu", "--duration", "1h"];
    all.extend(options);
    let mut session = Session::start(agent, &all, Subject::Process(target.pid()))?;
    session.until_attached()?;
    target.go()?;
    let lines = target.lines_to_end();
    let report = Report::read(&session.finish()?.pmu()?)?;
    let process = read_meters(&lines)?.into_iter().find(|m| m.kind == "process");
    Ok(Watched { report, process: process.context("the program printed no meter of its process")?, lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read() {
        let json = serde_json::json!({ "total": {
            "samples": 6, "on_cpu_ns_total": 50, "on_cpu": {"count": 5, "max_ns": 9},
            "runqueue": {"count": 4, "mean_ns": 2.5, "p50_ns": 3, "max_ns": 7},
            "context_switches": {"preempted": 1, "voluntary": 2, "io_wait": 3},
            "counters": [{"name": "cycles", "unavailable": "ENOENT"}, {"name": "page-faults", "value": 8}],
        }, "incomplete": {"lost_switches": 9, "unknown_durations": 2}});
        let report = Report::read(&json).unwrap();
        assert_eq!((report.runqueue, report.switches, report.slices), ((4, 3, 7), (1, 2, 3), (5, 50)));
        assert_eq!((report.waited_ns, report.missing), (10, 11));
        assert_eq!((report.counter("cycles"), report.counter("page-faults")), (None, Some(8)));
        assert!(Report::read(&serde_json::json!({})).is_err());
    }
}
