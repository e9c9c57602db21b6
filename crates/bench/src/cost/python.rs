//! What the frames of Python add to a sample, as a ratio to the sample of a program in C: perf-agent with `--python auto`, with `--python off`
//! and on a native stack of 40 frames, in turn on the same CPU. Only the program that takes samples counts; what it spends on samples of
//! other processes is taken off.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use truth::frame::Capture;
use truth::profiler::{BpfStats, Profiler};
use truth::target::Target;

use super::recursion::{Kind, Leaf, Motion, start};
use super::sum::{Sum, capture};
use super::turns;

/// The program.
const PROGRAM: &str = include_str!("../../../../bench/recursion.py");

/// Frames of the native stack.
const NATIVE_FRAMES: usize = 40;

/// One line of the table.
#[derive(Clone, Debug)]
pub struct PythonCost {
    /// `3.11.7`
    pub version: String,
    /// Functions of the stack.
    pub frames: usize,
    /// Of the functions of the program, how many a stack shows on average.
    pub shown: f64,
    /// Samples with `--python auto`.
    pub samples: u64,
    /// Kernel time per sample with `--python auto`, in ns.
    pub with_ns: f64,
    /// The same with `--python off`.
    pub without_ns: f64,
    /// The same of the native stack.
    pub native_ns: f64,
}

impl PythonCost {
    /// What Python adds, in samples of the native stack.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        (self.with_ns - self.without_ns) / self.native_ns
    }
}

/// Measures one interpreter with a stack of so many functions. `seconds` is the length of all captures with `--python auto`.
///
/// # Errors
/// Without root, gcc or BPF statistics.
pub fn measure(
    out: &Path,
    agent: &(PathBuf, Vec<String>),
    interpreter: &Path,
    frames: usize,
    seconds: f64,
    rate_hz: u32,
) -> Result<PythonCost> {
    let _stats = BpfStats::enable()?;
    let with_python = |mode: &str| {
        let more = [agent.1.clone(), vec!["--python".to_owned(), mode.to_owned()]].concat();
        Profiler::Agent(agent.0.clone(), more)
    };
    let (auto, off) = (with_python("auto"), with_python("off"));
    let file = tempfile::NamedTempFile::new().context("create a file for the program")?;
    std::fs::write(file.path(), PROGRAM).context("write the program")?;
    let python = Target::start_command(Command::new(interpreter).arg(file.path()).arg(frames.to_string()))
        .with_context(|| format!("start {}", interpreter.display()))?;
    let native = start(out, Kind::Plain, NATIVE_FRAMES, Motion::Staying, Leaf::Computes)?;
    let cpu = turns::last_cpu()?;
    for target in [&python, &native] {
        turns::bind(target.pid(), cpu)?;
        turns::stop(target.pid())?;
    }
    // Beside other work most of what the sampler meets is of other processes.
    let away_ns = away_ns(&off, python.pid(), rate_hz)?;
    let mut sums = [Sum::default(); 3];
    let mut shown = 0;
    for _ in 0..turns::TURNS {
        let turn = seconds / f64::from(turns::TURNS);
        for (sum, (profiler, target)) in
            sums.iter_mut().zip([(&off, &python), (&auto, &python), (&off, &native)])
        {
            turns::go_on(target.pid())?;
            let capture = capture(profiler, target.pid(), turn, rate_hz)?;
            turns::stop(target.pid())?;
            let (ns, runs) = capture.sampler.context("no run time of the agent's BPF programs was seen")?;
            let samples = capture.samples();
            sum.samples += samples;
            sum.ns += ns.saturating_sub((runs.saturating_sub(samples) as f64 * away_ns) as u64);
            shown += functions(&capture);
        }
    }
    let [without, with, native] = sums;
    Ok(PythonCost {
        version: version(interpreter)?,
        frames,
        shown: shown as f64 / with.samples.max(1) as f64,
        samples: with.samples,
        with_ns: with.per_sample(),
        without_ns: without.per_sample(),
        native_ns: native.per_sample(),
    })
}

/// The time for a sample of another process, while the target is stopped.
fn away_ns(profiler: &Profiler, pid: u32, rate_hz: u32) -> Result<f64> {
    let capture = capture(profiler, pid, 1.0, rate_hz)?;
    let (ns, runs) = capture.sampler.unwrap_or_default();
    Ok(ns as f64 / runs.max(1) as f64)
}

/// The functions of the program in all stacks.
fn functions(capture: &Capture) -> u64 {
    let is_function = |name: &Option<String>| matches!(name.as_deref(), Some("down" | "spin" | "<module>"));
    let of = |stack: &truth::frame::Stack| {
        stack.frames.iter().filter(|frame| frame.module.is_empty() && is_function(&frame.name)).count() as u64
    };
    capture.stacks.iter().map(|stack| of(stack) * stack.count).sum()
}

fn version(interpreter: &Path) -> Result<String> {
    let script = "import sys; print('%d.%d.%d' % sys.version_info[:3])";
    let output = Command::new(interpreter).args(["-c", script]).output();
    let output = output.with_context(|| format!("ask {} for its version", interpreter.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
