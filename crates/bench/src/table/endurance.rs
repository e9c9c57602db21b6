//! All modes together for long.

use std::path::Path;

use anyhow::Result;
use bench::endurance;
use truth::programs::Scheduling;

use super::reproduce::reproduce;

/// All modes on a busy machine; with a limit for the growth of memory, pass or fail.
pub fn endurance(out: &Path, agent: &Path, seconds: f64, limit_pct: Option<f64>) -> Result<()> {
    let measured = endurance::measure(agent, &Scheduling::new(out), seconds)?;
    println!(
        "perf-agent --profile --offcpu --wakers --pmu --per-pid --wall-output -a, {seconds} s, while {} processes came and \
         went.\n",
        measured.processes
    );
    println!("| s | resident, MiB |\n|--:|--:|");
    for (at, kib) in &measured.resident {
        println!("| {at:.1} | {:.1} |", *kib as f64 / 1024.0);
    }
    println!("\nGrowth from the second quarter to the last: {:.1} %.", measured.growth_pct());
    let [before, after] = measured.rate_alone;
    println!(
        "On-CPU samples/s: {before:.1} alone before, {:.1} with all modes, {after:.1} alone afterwards: {:.3} of those \
         alone.",
        measured.rate_with_all,
        measured.rate_ratio()
    );
    println!("\n| ledger | key | |\n|---|---|--:|");
    for (mode, key, value) in measured.losses() {
        println!("| {mode} | {key} | {value} |");
    }
    if let Some(identity) = measured.identity_pct() {
        println!("| wall clock | sum / truth | {identity:.2} % |");
    }
    reproduce(&format!("endurance --seconds {seconds}"));
    limit_pct.map_or(Ok(()), |limit| measured.judge(limit))
}
