//! The cost of one sample in the kernel, as a ratio to the minimum that any profiler does: a bare `bpf_get_stack` over
//! frame pointers on a frame-pointer build of the same program, in turn on the same CPU.

mod bare;
pub mod python;
mod recursion;
mod sum;
mod turns;

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use truth::profiler::{BpfStats, Profiler};

use recursion::{Kind, start};
use sum::{Sum, capture};

pub use bare::Bare;
pub use recursion::{Leaf, Motion};
pub(crate) use turns::{bind, last_cpu};

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Frames of the whole stack.
    pub frames: usize,
    /// How the recursion moves.
    pub motion: Motion,
    /// Samples of the profiler.
    pub samples: u64,
    /// Kernel time of all of the profiler's BPF programs per sample, in ns.
    pub agent_ns: f64,
    /// Run time of the bare program per sample, in ns.
    pub bare_ns: f64,
    /// Frames that the bare program got, on average (the kernel stops at 127).
    pub bare_frames: f64,
}

impl Cost {
    /// How many times the bare program's cost.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.agent_ns / self.bare_ns
    }
}

/// Measures one case: both builds of the program in turn on one CPU, each under its profiler while the other is stopped.
/// [`turned_away_ns`] measures the cost of a sample of another process.
///
/// # Errors
/// Without root, clang or BPF statistics.
pub fn measure(
    out: &Path,
    agent: &Profiler,
    frames: usize,
    (motion, leaf): (Motion, Leaf),
    seconds: f64,
    rate_hz: u32,
) -> Result<Cost> {
    let _stats = BpfStats::enable()?;
    let profiled = start(out, Kind::Plain, frames, motion, leaf)?;
    let baseline = start(out, Kind::FramePointers, frames, motion, leaf)?;
    let cpu = turns::last_cpu()?;
    for target in [&profiled, &baseline] {
        turns::bind(target.pid(), cpu)?;
        turns::stop(target.pid())?;
    }
    let turn = seconds / f64::from(turns::TURNS);
    let (mut theirs, mut ours) = (Sum::default(), Sum::default());
    let mut bare_frames = 0.0;
    for _ in 0..turns::TURNS {
        turns::go_on(profiled.pid())?;
        let capture = capture(agent, profiled.pid(), turn, rate_hz)?;
        turns::stop(profiled.pid())?;
        ours.add(&capture)?;

        turns::go_on(baseline.pid())?;
        let bare = Bare::attach(out, baseline.pid(), rate_hz)?;
        thread::sleep(Duration::from_secs_f64(turn));
        let taken = bare.finish()?;
        turns::stop(baseline.pid())?;
        bare_frames += taken.frames;
        theirs.samples += taken.samples;
        theirs.ns += taken.run_ns;
    }
    Ok(Cost {
        frames,
        motion,
        samples: ours.samples,
        agent_ns: ours.per_sample(),
        bare_ns: theirs.per_sample(),
        bare_frames: bare_frames / theirs.samples as f64,
    })
}

/// The cost of a sample of another process than the target, in ns.
///
/// # Errors
/// As [`measure`].
pub fn turned_away_ns(out: &Path, agent: &Profiler, seconds: f64, rate_hz: u32) -> Result<f64> {
    let _stats = BpfStats::enable()?;
    let target = start(out, Kind::Plain, 40, Motion::Staying, Leaf::Computes)?;
    turns::stop(target.pid())?;
    let other = start(out, Kind::Plain, 40, Motion::Staying, Leaf::Computes)?;
    turns::bind(other.pid(), turns::last_cpu()?)?;
    let capture = capture(agent, target.pid(), seconds, rate_hz)?;
    let runs =
        capture.kernel_runs.filter(|runs| *runs > 0).context("the agent's BPF programs did not run")?;
    Ok(capture.kernel_ns.unwrap_or(0) as f64 / runs as f64)
}
