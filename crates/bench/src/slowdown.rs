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
use crate::window::window;

/// Time for a profiler to attach before a window begins, and to go away after it ended.
const SETTLE: Duration = Duration::from_millis(1000);
/// Functions that call each other, the innermost of which counts.
const COUNTING_PROGRAM: &str = include_str!("../../../bench/counting.py");

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

/// The modes that are compared on a program in C.
#[must_use]
pub fn modes(agent: &Path) -> Vec<Mode> {
    let agent = Profiler::Agent(agent.to_owned(), Vec::new());
    let mode = |profiler: &Profiler, rate_hz: u32| Mode {
        name: format!("{} {rate_hz} Hz", profiler.name()),
        profiler: profiler.clone(),
        rate_hz,
    };
    vec![
        mode(&agent, 99),
        mode(&agent, 999),
        mode(&Profiler::Perf(PerfMode::NoStacks), 999),
        mode(&Profiler::Perf(PerfMode::FramePointers), 999),
        mode(&Profiler::Perf(PerfMode::Dwarf), 999),
    ]
}

/// The modes that are compared on a program in Python.
#[must_use]
pub fn python_modes(agent: &Path) -> Vec<Mode> {
    let mode = |python: &str, rate_hz: u32| Mode {
        name: format!("perf-agent --python {python} {rate_hz} Hz"),
        profiler: Profiler::Agent(agent.to_owned(), vec!["--python".to_owned(), python.to_owned()]),
        rate_hz,
    };
    let bare = Mode {
        name: "perf, no stacks 999 Hz".to_owned(),
        profiler: Profiler::Perf(PerfMode::NoStacks),
        rate_hz: 999,
    };
    vec![mode("auto", 99), mode("off", 99), mode("auto", 999), mode("off", 999), bare]
}

/// A program in C of 36 frames that counts its work.
///
/// # Errors
/// Without gcc.
pub fn native_program(out: &Path) -> Result<Target> {
    let flags = "-O2 -fomit-frame-pointer";
    let path =
        Build::new("recurse-gcc-O2-dynamic", Compiler::Gcc, "recurse.c", flags).run(&sources(), out)?;
    Target::start_command(Command::new(path).args(["36", "2000", "count"]))
}

/// A program in Python of 50 functions that counts its work.
///
/// # Errors
/// If the interpreter cannot be started.
pub fn python_program(interpreter: &Path) -> Result<Target> {
    let arguments = ["-c", COUNTING_PROGRAM, "50"];
    Target::start_command(Command::new(interpreter).args(arguments))
        .with_context(|| format!("start {}", interpreter.display()))
}

/// Runs `rounds` rounds on a program that counts its work; in each, every mode has a window of `seconds` between two windows without a profiler.
///
/// # Errors
/// If a profiler fails, or the program ends.
pub fn measure(target: &Target, modes: &[Mode], rounds: usize, seconds: f64) -> Result<Vec<Slowdown>> {
    let mut results: Vec<(Vec<f64>, Vec<f64>)> = vec![Default::default(); modes.len()];
    for _ in 0..rounds {
        let mut before = window(target, seconds)?;
        for (mode, (wall, cpu)) in modes.iter().zip(&mut results) {
            let with = profiled_window(target, mode, seconds)?;
            let after = window(target, seconds)?;
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
