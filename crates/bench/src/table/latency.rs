//! Run-queue latency, switches and counters.

use std::path::Path;

use anyhow::Result;
use bench::latency;
use truth::programs::Scheduling;
use truth::scheduler::LOADS;

use super::reproduce::reproduce;

pub fn latency(out: &Path, agent: &Path, seconds: f64) -> Result<()> {
    let (programs, ms) = (Scheduling::new(out), (seconds * 1000.0) as u64);
    println!("Run-queue latency and switches, the same {seconds} s for all; ns.\n");
    println!(
        "| program | waits: perf-agent | by perf's events | median: perf-agent | by events | longest: perf-agent \
         | by events | perf sched latency | voluntary: perf-agent | the kernel's count | by events | preempted: perf-agent \
         | the kernel's count | by events |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for load in LOADS {
        let row = latency::measure(agent, &programs, *load, ms)?;
        let (count, median, longest) = row.agent.runqueue;
        let (preempted, voluntary, io_wait) = row.agent.switches;
        println!(
            "| {} | {count} | {} | {median} | {} | {longest} | {} | {} | {} | {} | {} | {preempted} | {} | {} |",
            load.name,
            row.events.latencies_ns.len(),
            row.events.percentile_ns(50.0).unwrap_or(0),
            row.events.percentile_ns(100.0).unwrap_or(0),
            row.perf_max_ns,
            voluntary + io_wait,
            row.kernel.0,
            row.events.voluntary,
            row.kernel.1,
            row.events.preempted,
        );
    }
    println!(
        "\nThe kernel's count is taken before the process ends: each thread's end is one more voluntary switch."
    );
    println!("\n| counter | perf-agent | perf stat, the same seconds |\n|---|--:|--:|");
    for (name, agent, perf) in latency::counters(agent, &programs, ms)? {
        println!("| {name} | {agent} | {perf:.0} |");
    }
    reproduce(&format!("latency --seconds {seconds}"));
    Ok(())
}
