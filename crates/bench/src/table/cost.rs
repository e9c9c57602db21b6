//! Kernel time per sample.

use std::path::Path;

use anyhow::Result;
use bench::cost::{self, Motion};
use truth::profiler::Profiler;

use super::reproduce::reproduce;

pub fn cost(out: &Path, agent: &Profiler, seconds: f64, rate_hz: u32) -> Result<()> {
    println!(
        "Kernel time per sample, all of perf-agent's BPF programs, as a ratio to a bare bpf_get_stack.\n"
    );
    println!("| frames | motion | samples | perf-agent, ns | bare, ns | bare: frames | ratio |");
    println!("|--:|---|--:|--:|--:|--:|--:|");
    for motion in [Motion::Staying, Motion::Reentered] {
        for frames in [16, 40, 125, 200] {
            let c = cost::measure(out, agent, frames, motion, seconds, rate_hz)?;
            println!(
                "| {frames} | {} | {} | {:.0} | {:.0} | {:.0} | {:.2} |",
                motion.name(),
                c.samples,
                c.agent_ns,
                c.bare_ns,
                c.bare_frames,
                c.ratio()
            );
        }
    }
    println!(
        "\nA sample of another process costs {:.0} ns, which are not in the table.",
        cost::turned_away_ns(out, agent, seconds, rate_hz)?
    );
    println!(
        "\nThe kernel's walker stops at 127 frames: at 200 the ratio compares a whole stack with a cut one."
    );
    reproduce(&format!("cost --seconds {seconds} --rate {rate_hz}"));
    Ok(())
}
