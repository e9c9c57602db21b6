//! Memory while short processes come and go.

use std::path::Path;

use anyhow::{Result, ensure};
use bench::churn;

use super::reproduce::reproduce;

/// One line for each look, when it is taken; with a limit for the growth of memory, pass or fail.
pub fn churn(
    agent: &Path,
    seconds: f64,
    rate_hz: f64,
    rotate: Option<&str>,
    limit_pct: Option<f64>,
) -> Result<()> {
    let rotated = rotate.map_or_else(String::new, |length| format!(" --rotate {length}"));
    println!("perf-agent --profile --offcpu -a{rotated}, {seconds} s, {rate_hz} processes per second.\n");
    println!("| s | processes | resident, MiB | of it anonymous | descriptors |\n|--:|--:|--:|--:|--:|");
    let mib = |kib: u64| kib as f64 / 1024.0;
    let looks = churn::measure(agent, seconds, rate_hz, rotate, |look| {
        let (resident, anonymous) = (mib(look.resident_kib), mib(look.anonymous_kib));
        println!(
            "| {:.0} | {} | {resident:.1} | {anonymous:.1} | {} |",
            look.at, look.processes, look.descriptors
        );
    })?;
    let growth = churn::growth_pct(&looks);
    if let Some(growth) = growth {
        println!("\nGrowth of the anonymous memory from the second quarter to the last: {growth:.1} %.");
    }
    reproduce(&format!("churn --seconds {seconds} --rate {rate_hz}{rotated}"));
    let is_flat = limit_pct.is_none_or(|limit| growth.is_some_and(|growth| growth <= limit));
    ensure!(is_flat, "memory has grown, or there are too few looks to tell");
    Ok(())
}
