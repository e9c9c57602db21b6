//! What a profile of events costs, beside bpftrace.

use std::path::Path;

use anyhow::Result;
use bench::event_cost::{self, Kind};

use super::reproduce::reproduce;

/// Frames of the stacks.
const FRAMES: [usize; 2] = [16, 44];

pub fn event_cost(out: &Path, agent: &Path, rounds: usize, seconds: f64) -> Result<()> {
    println!(
        "CPU time that a profile adds to each event of a program, {rounds} rounds of {seconds} s windows, medians. bpftrace: `@[ustack] = count()` \
         over frame pointers.\n"
    );
    println!(
        "| event | recursion | alone, ns | perf-agent adds, ns | bpftrace adds, ns | ratio | rooted % |\n|---|--:|--:|--:|--:|--:|--:|"
    );
    for kind in Kind::ALL {
        for frames in FRAMES {
            let row = event_cost::measure(out, agent, (kind, frames), rounds, seconds)?;
            let theirs = row.bpftrace_ns.map_or("not installed".to_owned(), |ns| format!("{ns:.0}"));
            let ratio = row.bpftrace_ns.map_or(String::new(), |ns| format!("{:.2}", row.agent_ns / ns));
            println!(
                "| {} | {frames} | {:.0} | {:.0} | {theirs} | {ratio} | {:.2} |",
                kind.name(),
                row.alone_ns,
                row.agent_ns,
                100.0 * row.rooted
            );
        }
    }
    reproduce(&format!("event-cost --rounds {rounds} --seconds {seconds}"));
    Ok(())
}
