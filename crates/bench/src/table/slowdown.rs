//! How much slower a program runs under each profiler.

use std::path::Path;

use anyhow::Result;
use bench::slowdown;
use truth::profiler::Profiler;

use super::reproduce::reproduce;

pub fn slowdown(out: &Path, agent: &Profiler, rounds: usize, seconds: f64) -> Result<()> {
    println!("Slowdown of a 36-frame program, {rounds} rounds of {seconds} s windows, medians.\n");
    println!("| profiler | by wall clock | half quartile distance | by CPU clock |\n|---|--:|--:|--:|");
    for row in slowdown::measure(out, &slowdown::modes(agent), rounds, seconds)? {
        println!("| {} | {:.2} % | {:.2} | {:.2} % |", row.mode, row.wall_pct, row.spread_pct, row.cpu_pct);
    }
    reproduce(&format!("slowdown --rounds {rounds} --seconds {seconds}"));
    Ok(())
}
