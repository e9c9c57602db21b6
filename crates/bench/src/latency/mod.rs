//! Scheduler metrics: run-queue latency, switches and counters of `--pmu` beside perf and the kernel's own counts.

mod events;

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use truth::programs::Scheduling;
use truth::scheduler::{COUNTERS, Load, Report, watch};
use truth::session::{Session, Subject};
use truth::target::Target;

use crate::offcpu::Timehist;

pub use events::{Waits, read_events};

/// The measurements of one program by each tool during the same seconds.
#[derive(Clone, Debug)]
pub struct Row {
    /// perf-agent's report.
    pub agent: Report,
    /// The same, computed from perf's events.
    pub events: Waits,
    /// The largest delay in ns in the output of `perf sched latency`.
    pub perf_max_ns: u64,
    /// Voluntary and involuntary switches by the kernel's count for the process.
    pub kernel: (u64, u64),
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
    let wanted = |name: &str| load.has_thread(name);
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
    let output = testkit::perf(file.parent().unwrap_or(Path::new("/")))
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

/// Counters of one waiting program from before its work until its end: by perf-agent and by `perf stat`, at once.
///
/// # Errors
/// If one of them fails.
pub fn counters(agent: &Path, programs: &Scheduling, ms: u64) -> Result<Vec<(String, u64, f64)>> {
    let path = programs.path("pacer")?;
    let mut target = Target::start_command(Command::new(path).args([&ms.to_string(), "1", "wait"]))?;
    let options = ["--pmu", "--pmu-events", COUNTERS, "--duration", "120s"];
    let mut session = Session::start(agent, &options, Subject::Process(target.pid()))?;
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
    fn the_largest_delay_is_read() {
        let text = "\
  hog_two:20811         |    324.348 ms |       97 | avg:   6.911 ms | max:  20.015 ms | max start: 12709.166465 s\n\
  hog_one:20810         |    325.865 ms |       99 | avg:   6.807 ms | max:  20.033 ms | max start: 12709.178452 s\n\
  hog_one:20812         |    125.865 ms |       19 | avg:   1.807 ms | max:   4.033 ms | max start: 12709.178452 s\n\
  rustc:(4)             |    401.875 ms |      109 | avg:   7.739 ms | max:  96.007 ms | max start: 12709.526470 s\n";
        assert_eq!(read_latency(text, |name| name.starts_with("hog")), 20_033_000);
    }
}
