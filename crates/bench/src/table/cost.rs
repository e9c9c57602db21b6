//! Kernel time per sample.

use std::path::Path;

use anyhow::Result;
use bench::cost::{self, Cost, Leaf, Motion};
use bench::real::compilation;
use bench::statistics::{Summary, summary};
use clap::ValueEnum;
use truth::profiler::Profiler;

use super::reproduce::reproduce;

/// What the caches of the CPU are full of when a sample is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Caches {
    /// Of what the program, the kernel and the profilers themselves left: warm at 25000 Hz, cold at 999 Hz.
    Own,
    /// Of the program's data: it reads 16 MiB again and again.
    Sweep,
    /// Of the data of compilers, two for each CPU.
    Compilers,
}

impl Caches {
    fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Sweep => "sweep",
            Self::Compilers => "compilers",
        }
    }
}

/// How a table is made.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub seconds: f64,
    pub rate_hz: u32,
    pub caches: Caches,
    pub rounds: usize,
}

pub fn cost(out: &Path, agent: &Profiler, setting: Setting) -> Result<()> {
    let Setting { seconds, rate_hz, caches, rounds } = setting;
    println!(
        "Kernel time per sample, all of perf-agent's BPF programs, as a ratio to a bare bpf_get_stack. Medians of {rounds} rounds, in which \
         both take turns; +-: half of the distance between the quartiles.\n"
    );
    println!("| frames | motion | samples | perf-agent, ns | bare, ns | bare: frames | ratio | +- |");
    println!("|--:|---|--:|--:|--:|--:|--:|--:|");
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let _compilers = (caches == Caches::Compilers).then(|| compilation(2 * cpus)).transpose()?;
    let leaf = if caches == Caches::Sweep { Leaf::Sweeps } else { Leaf::Computes };
    let cases: Vec<_> = [Motion::Staying, Motion::Reentered]
        .into_iter()
        .flat_map(|motion| [16, 40, 100, 125, 200].map(|frames| (frames, motion)))
        .collect();
    let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        for ((frames, motion), costs) in cases.iter().zip(&mut costs) {
            costs.push(cost::measure(out, agent, *frames, (*motion, leaf), seconds, rate_hz)?);
        }
    }
    for ((frames, motion), costs) in cases.iter().zip(&costs) {
        let of = |figure: &dyn Fn(&Cost) -> f64| -> Summary { summary(costs.iter().map(figure).collect()) };
        let ratio = of(&Cost::ratio);
        println!(
            "| {frames} | {} | {} | {:.0} | {:.0} | {:.0} | {:.2} | {:.2} |",
            motion.name(),
            costs.iter().map(|cost| cost.samples).sum::<u64>(),
            of(&|cost| cost.agent_ns).median,
            of(&|cost| cost.bare_ns).median,
            of(&|cost| cost.bare_frames).median,
            ratio.median,
            ratio.spread
        );
    }
    println!(
        "\nA sample of another process costs {:.0} ns, which are not in the table.",
        cost::turned_away_ns(out, agent, seconds, rate_hz)?
    );
    println!(
        "\nThe kernel's walker stops at 127 frames: at 200 the ratio compares a whole stack with a cut one."
    );
    reproduce(&format!(
        "cost --seconds {seconds} --rate {rate_hz} --caches {} --rounds {rounds}",
        caches.name()
    ));
    Ok(())
}
