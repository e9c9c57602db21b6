//! Scheduler metrics: run-queue latency, switches and counters of `--pmu` beside what perf and the kernel's own counts say.

mod events;

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::blocking::{Meter, Timehist, read_meters};
use crate::programs::Scheduling;
use crate::session::{Session, Whom};
use crate::target::Target;

pub use events::{Waits, read_events};

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

/// What each says about one program during the same seconds.
#[derive(Clone, Debug)]
pub struct Row {
    /// perf-agent's report.
    pub agent: Report,
    /// The same from perf's events by definition.
    pub events: Waits,
    /// The largest delay in ns that `perf sched latency` tells.
    pub perf_max_ns: u64,
    /// Voluntary and involuntary switches by the kernel's count for the process.
    pub kernel: (u64, u64),
}

/// What counts of a report of `--pmu`.
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
    /// Switches, and slices with the waits before them, that the report says are missing.
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
    /// What perf-agent says.
    pub report: Report,
    /// What the program says of itself, from the runner's line on.
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
    let mut all = vec!["--pmu", "--duration", "120s"];
    all.extend(options);
    let mut session = Session::start(agent, &all, Whom::Process(target.pid()))?;
    session.until_attached()?;
    target.go()?;
    let lines = target.lines_to_end();
    let report = Report::read(&session.finish()?.pmu()?)?;
    let process = read_meters(&lines)?.into_iter().find(|m| m.kind == "process");
    Ok(Watched { report, process: process.context("the program told nothing of itself")?, lines })
}

/// Measures one program under perf-agent and `perf sched record` at once.
///
/// # Errors
/// If one of them fails.
pub fn measure(agent: &Path, programs: &Scheduling, load: Load, ms: u64) -> Result<Row> {
    let folder = tempfile::tempdir().context("create a folder")?;
    let perf = Timehist::start(folder.path())?;
    thread::sleep(Duration::from_millis(700));
    let watched = watch(agent, programs, load, ms, &[])?;
    let file = perf.stop()?;
    let wanted = |name: &str| load.threads.iter().any(|prefix| name.starts_with(prefix));
    let script = perf_text(&file, &["script", "--ns", "-F", "comm,tid,time,event,trace"])?;
    let latency = perf_text(&file, &["sched", "latency"])?;
    Ok(Row {
        agent: watched.report,
        events: read_events(&script, wanted),
        perf_max_ns: read_latency(&latency, wanted),
        kernel: (watched.process.voluntary, watched.process.involuntary),
    })
}

fn perf_text(file: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("perf")
        .args(arguments)
        .args(["-f", "-i"])
        .arg(file)
        .stderr(Stdio::null())
        .output()
        .context("run perf")?;
    ensure!(output.status.success(), "perf {} failed", arguments.join(" "));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The largest `max: N ms` among the rows `NAME:TID | … | max: N ms | …`.
fn read_latency(text: &str, wanted: impl Fn(&str) -> bool) -> u64 {
    let rows = text.lines().filter(|line| wanted(line.trim_start()));
    let max_ms =
        rows.filter_map(|row| row.split_once("max:")?.1.split_whitespace().next()?.parse::<f64>().ok());
    (max_ms.fold(0.0, f64::max) * 1e6) as u64
}

/// Counters that a machine without hardware counters has too.
pub const COUNTERS: &str = "page-faults,context-switches,task-clock";

/// Counters of one waiting program from before its work until its end: by perf-agent and by `perf stat`, at once.
///
/// # Errors
/// If one of them fails.
pub fn counters(agent: &Path, programs: &Scheduling, ms: u64) -> Result<Vec<(String, u64, f64)>> {
    let path = programs.path("pacer")?;
    let mut target = Target::start_command(Command::new(path).args([&ms.to_string(), "1", "wait"]))?;
    let options = ["--pmu", "--pmu-events", COUNTERS, "--duration", "120s"];
    let mut session = Session::start(agent, &options, Whom::Process(target.pid()))?;
    session.until_attached()?;
    let perf = Command::new("perf")
        .args(["stat", "-x,", "-e", COUNTERS, "-p", &target.pid().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("run perf stat")?;
    thread::sleep(Duration::from_millis(700));
    target.go()?;
    let _its_own_account = target.lines_to_end();
    let output = perf.wait_with_output().context("wait for perf stat")?;
    let report = Report::read(&session.finish()?.pmu()?)?;
    let text = String::from_utf8_lossy(&output.stderr);
    let by_perf = |name: &str| {
        let line = text.lines().find(|l| l.split(',').nth(2) == Some(name))?;
        let value = line.split(',').next()?.parse::<f64>().ok()?;
        // In milliseconds.
        Some(if name == "task-clock" { value * 1e6 } else { value })
    };
    let row = |name: &str| {
        let agent = report.counter(name).with_context(|| format!("no counter {name}: {report:?}"))?;
        Ok((name.to_owned(), agent, by_perf(name).with_context(|| format!("no {name} in {text}"))?))
    };
    COUNTERS.split(',').map(row).collect()
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

    #[test]
    fn the_largest_delay_is_read() {
        let text = "\
  hog_two:20811         |    324.348 ms |       97 | avg:   6.911 ms | max:  20.015 ms | max start: 12709.166465 s\n\
  hog_one:20810         |    325.865 ms |       99 | avg:   6.807 ms | max:  20.033 ms | max start: 12709.178452 s\n\
  rustc:(4)             |    401.875 ms |      109 | avg:   7.739 ms | max:  96.007 ms | max start: 12709.526470 s\n";
        assert_eq!(read_latency(text, |name| name.starts_with("hog")), 20_033_000);
    }
}
