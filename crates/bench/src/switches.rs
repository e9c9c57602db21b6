//! The cost of tracing each switch: the work left to programs that only switch, in alternating windows with and without a
//! tracer.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::offcpu::{ByFramePointers, Offcputime};
use crate::statistics::quantile;
use crate::tool::interrupt;
use testkit::find_command;
use truth::programs::Scheduling;
use truth::session::{Session, Subject};
use truth::target::Target;

/// Time for a profiler to go away before the next window.
const SETTLE: Duration = Duration::from_millis(300);
/// Time for a tracer to begin, if it does not show when it has begun.
const STARTS: Duration = Duration::from_millis(700);

/// A program that switches.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// For the table.
    pub name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    /// Also the partners of the process that is traced.
    with_partners: bool,
}

/// The programs.
pub const LOADS: &[Load] = &[
    Load { name: "ping-pong, one of two", program: "pingpong", arguments: &["1"], with_partners: false },
    Load { name: "ping-pong, both", program: "pingpong", arguments: &["1"], with_partners: true },
    Load {
        name: "60,000/s on each CPU, all traced",
        program: "pingpong",
        arguments: &["2", "60000"],
        with_partners: true,
    },
    Load { name: "storm of 64 futexes", program: "storm", arguments: &["64", "4"], with_partners: false },
];

/// What traces the switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tracer {
    /// perf-agent with further options.
    Agent(PathBuf, Vec<String>),
    /// bcc's offcputime.
    Offcputime,
    /// A minimal tracer that walks frame pointers.
    ByFramePointers,
    /// `perf record -e sched:sched_switch -g`.
    PerfRecord,
}

/// How much work a load does under one tracer.
#[derive(Clone, Debug)]
pub struct Left {
    /// Which tracer.
    pub tracer: String,
    /// The work under the tracer in per cent of the work without it; median of the rounds.
    pub left_pct: f64,
    /// Half of the distance between the quartiles.
    pub spread_pct: f64,
    /// Lost events in all rounds, if the tracer counts them.
    pub lost: Option<u64>,
    /// Complete stacks in per cent, if the tracer counts them.
    pub rooted_pct: Option<f64>,
}

/// One load under all tracers.
#[derive(Clone, Debug)]
pub struct Switches {
    /// Hand-overs per second without a tracer. Each takes at least one switch.
    pub per_second: f64,
    /// One line per tracer.
    pub left: Vec<Left>,
}

impl Tracer {
    /// For the table.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Agent(_, more) if more.is_empty() => "perf-agent --offcpu".to_owned(),
            Self::Agent(_, more) => format!("perf-agent --offcpu {}", more.join(" ")),
            Self::Offcputime => "bcc's offcputime".to_owned(),
            Self::ByFramePointers => "user stacks by frame pointers, no tool".to_owned(),
            Self::PerfRecord => "perf record -e sched:sched_switch -g".to_owned(),
        }
    }

    fn attach(&self, out: &Path, pids: &[u32], folder: &Path) -> Result<Attached> {
        Ok(match self {
            Self::Agent(path, more) => {
                let mut options = vec!["--offcpu", "--duration", "120s"];
                options.extend(more.iter().map(String::as_str));
                let words: Vec<String> = pids.iter().skip(1).map(|pid| format!("--pid={pid}")).collect();
                options.extend(words.iter().map(String::as_str));
                let first = *pids.first().context("no process")?;
                let mut session = Session::start(path, &options, Subject::Process(first))?;
                session.until_attached()?;
                Attached::Agent(session)
            }
            // Both filter by one process, or not at all.
            Self::Offcputime => {
                let pid = if let [one] = pids { Some(*one) } else { None };
                let attached = Attached::Offcputime(Offcputime::start(pid, folder)?);
                thread::sleep(STARTS);
                attached
            }
            Self::ByFramePointers => {
                let pid = if let [one] = pids { *one } else { 0 };
                Attached::ByFramePointers(ByFramePointers::attach(out, pid)?)
            }
            Self::PerfRecord => {
                let list: Vec<String> = pids.iter().map(u32::to_string).collect();
                let child = testkit::perf(folder)
                    .args(["record", "-q", "-e", "sched:sched_switch", "-g", "-m", "16M", "-p"])
                    .arg(list.join(","))
                    .arg("-o")
                    .arg(folder.join("switches.data"))
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .context("start perf record")?;
                thread::sleep(STARTS);
                Attached::PerfRecord(child)
            }
        })
    }
}

enum Attached {
    Agent(Session),
    Offcputime(Offcputime),
    ByFramePointers(ByFramePointers),
    PerfRecord(Child),
}

impl Attached {
    /// Ends it. Returns lost events and complete stacks by its own count, if it has one.
    fn detach(self) -> Result<(Option<u64>, Option<f64>)> {
        match self {
            Self::Agent(session) => {
                session.stop()?;
                let capture = session.finish()?.off_cpu()?;
                let number = |key: &str| capture.ledger(key).and_then(|v| v.parse::<f64>().ok());
                Ok((number("lost").map(|n| n as u64), number("rooted_pct")))
            }
            Self::Offcputime(tool) => tool.finish().map(|_| (None, None)),
            Self::ByFramePointers(program) => {
                drop(program);
                Ok((None, None))
            }
            Self::PerfRecord(mut child) => {
                interrupt(&mut child, "perf record")?;
                Ok((None, None))
            }
        }
    }
}

/// Runs `rounds` rounds; in each, every tracer has a window of `seconds` between two windows without one.
///
/// # Errors
/// If the program or a tracer fails.
pub fn measure(out: &Path, load: Load, tracers: &[Tracer], rounds: usize, seconds: f64) -> Result<Switches> {
    let path = Scheduling::new(out).path(load.program)?;
    let (target, before) = Target::start_after(Command::new(path).args(load.arguments))?;
    let partners = before.iter().filter_map(|l| l.strip_prefix("partner ")?.parse::<u32>().ok());
    let mut pids = vec![target.pid()];
    pids.extend(partners.filter(|_| load.with_partners));
    let mut results: Vec<(Vec<f64>, u64, Vec<f64>)> = vec![Default::default(); tracers.len()];
    let (mut told, mut rates) = (vec![false; tracers.len()], Vec::new());
    for _ in 0..rounds {
        let mut bare = window(&target, seconds)?;
        for (index, tracer) in tracers.iter().enumerate() {
            let folder = tempfile::tempdir().context("create a folder")?;
            let attached = tracer.attach(out, &pids, folder.path())?;
            let with = window(&target, seconds)?;
            let (lost, rooted) = attached.detach()?;
            thread::sleep(SETTLE);
            let after = window(&target, seconds)?;
            let (left, lost_sum, rooted_all) = &mut results[index];
            left.push(with * 200.0 / (bare + after));
            *lost_sum += lost.unwrap_or(0);
            told[index] |= lost.is_some();
            rooted_all.extend(rooted);
            rates.push(bare);
            bare = after;
        }
    }
    let left =
        tracers.iter().zip(results).zip(told).map(|((tracer, (mut left, lost, mut rooted)), told)| Left {
            tracer: tracer.name(),
            left_pct: quantile(&mut left, 0.5),
            spread_pct: (quantile(&mut left, 0.75) - quantile(&mut left, 0.25)) / 2.0,
            lost: told.then_some(lost),
            rooted_pct: (!rooted.is_empty()).then(|| quantile(&mut rooted, 0.0)),
        });
    Ok(Switches { left: left.collect(), per_second: quantile(&mut rates, 0.5) })
}

/// The installed tracers.
#[must_use]
pub fn tracers(agent: Option<PathBuf>, more: &[String]) -> Vec<Tracer> {
    let mut all: Vec<Tracer> = agent.map(|path| Tracer::Agent(path, more.to_vec())).into_iter().collect();
    if Offcputime::is_here() {
        all.push(Tracer::Offcputime);
    }
    all.push(Tracer::ByFramePointers);
    if find_command("perf").is_some() {
        all.push(Tracer::PerfRecord);
    }
    all
}

/// Work per second during the next seconds.
fn window(target: &Target, seconds: f64) -> Result<f64> {
    drop(target.pending_lines());
    thread::sleep(Duration::from_secs_f64(seconds));
    let lines = target.pending_lines();
    let counts: Vec<(f64, f64)> = lines.iter().filter_map(|line| read_count(line)).collect();
    let (first, last) = (counts.first().context("no counts")?, counts.last().context("no counts")?);
    ensure!(last.0 > first.0 && last.1 > first.1, "the program did not count on");
    Ok((last.0 - first.0) / (last.1 - first.1))
}

fn read_count(line: &str) -> Option<(f64, f64)> {
    let (count, seconds) = line.strip_prefix("count ")?.split_once(' ')?;
    Some((count.parse().ok()?, seconds.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        assert_eq!(read_count("count 500 12.5"), Some((500.0, 12.5)));
        assert_eq!(read_count("partner 7"), None);
    }
}
