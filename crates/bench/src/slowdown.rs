//! How much slower a program runs under a profiler: alternating windows, with and without, on one running program that
//! counts its own work.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use truth::compile::{Build, Compiler};
use truth::profiler::{PerfMode, Profiler, Scope};
use truth::programs::sources;
use truth::target::Target;

use crate::statistics::quantile;

/// Time for a profiler to attach before a window begins, and to go away after it ended.
const SETTLE: Duration = Duration::from_millis(1000);

/// A profiler at a rate.
#[derive(Clone, Debug)]
pub struct Mode {
    /// For the table.
    pub name: String,
    profiler: Profiler,
    rate_hz: u32,
}

/// Slowdown in per cent against windows without a profiler.
#[derive(Clone, Debug)]
pub struct Slowdown {
    /// Which profiler.
    pub mode: String,
    /// Median over the rounds, by wall clock: includes CPU time that the profiler's own process takes away.
    pub wall_pct: f64,
    /// Median over the rounds, by the program's CPU clock.
    pub cpu_pct: f64,
    /// Half of the distance between the quartiles of `wall_pct`.
    pub spread_pct: f64,
}

/// The modes that are compared.
#[must_use]
pub fn modes(agent: &Profiler) -> Vec<Mode> {
    let mode = |profiler: &Profiler, rate: u32| Mode {
        name: format!("{} {rate} Hz", profiler.name()),
        profiler: profiler.clone(),
        rate_hz: rate,
    };
    vec![
        mode(agent, 99),
        mode(agent, 999),
        mode(&Profiler::Perf(PerfMode::NoStacks), 999),
        mode(&Profiler::Perf(PerfMode::FramePointers), 999),
        mode(&Profiler::Perf(PerfMode::Dwarf), 999),
    ]
}

/// Runs `rounds` rounds; in each, every mode has a window of `seconds` between two windows without a profiler.
///
/// # Errors
/// If the program or a profiler fails.
pub fn measure(out: &Path, modes: &[Mode], rounds: usize, seconds: f64) -> Result<Vec<Slowdown>> {
    let flags = "-O2 -fomit-frame-pointer";
    let path =
        Build::new("recurse-gcc-O2-dynamic", Compiler::Gcc, "recurse.c", flags).run(&sources(), out)?;
    let target = Target::start_command(Command::new(path).args(["36", "2000", "count"]))?;
    let mut results: Vec<(Vec<f64>, Vec<f64>)> = vec![Default::default(); modes.len()];
    for _ in 0..rounds {
        let mut before = window(&target, seconds)?;
        for (mode, (wall, cpu)) in modes.iter().zip(&mut results) {
            let with = profiled_window(&target, mode, seconds)?;
            let after = window(&target, seconds)?;
            wall.push(100.0 - with.0 * 200.0 / (before.0 + after.0));
            cpu.push(100.0 - with.1 * 200.0 / (before.1 + after.1));
            before = after;
        }
    }
    let rows = modes.iter().zip(results).map(|(mode, (mut wall, mut cpu))| Slowdown {
        mode: mode.name.clone(),
        wall_pct: quantile(&mut wall, 0.5),
        cpu_pct: quantile(&mut cpu, 0.5),
        spread_pct: (quantile(&mut wall, 0.75) - quantile(&mut wall, 0.25)) / 2.0,
    });
    Ok(rows.collect())
}

fn profiled_window(target: &Target, mode: &Mode, seconds: f64) -> Result<(f64, f64)> {
    let folder = tempfile::tempdir().context("create a folder for the profile")?;
    let length = seconds + SETTLE.as_secs_f64() + 0.5;
    let mut running =
        mode.profiler.start(Scope::Process(target.pid()), length, mode.rate_hz, folder.path())?;
    thread::sleep(SETTLE);
    let rates = window(target, seconds)?;
    running.wait(Duration::from_secs(60))?;
    thread::sleep(SETTLE / 4);
    Ok(rates)
}

/// Work per second of wall clock and of CPU time during the next seconds.
fn window(target: &Target, seconds: f64) -> Result<(f64, f64)> {
    drop(target.pending_lines());
    thread::sleep(Duration::from_secs_f64(seconds));
    let counts: Vec<[f64; 3]> = target.pending_lines().iter().filter_map(|line| read_count(line)).collect();
    let (first, last) = (counts.first().context("no counts")?, counts.last().context("no counts")?);
    let work = last[0] - first[0];
    anyhow::ensure!(work > 0.0, "the program did not count on");
    Ok((work / (last[1] - first[1]), work / (last[2] - first[2])))
}

fn read_count(line: &str) -> Option<[f64; 3]> {
    let mut words = line.strip_prefix("count ")?.split(' ').map(str::parse);
    Some([words.next()?.ok()?, words.next()?.ok()?, words.next()?.ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        assert_eq!(read_count("count 5 10 8"), Some([5.0, 10.0, 8.0]));
        assert_eq!(read_count("ready"), None);
    }
}
