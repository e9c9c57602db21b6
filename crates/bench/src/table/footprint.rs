//! CPU time and memory of perf-agent's own process.

use std::path::Path;

use anyhow::Result;
use bench::big_libraries::big_libraries;
use bench::{footprint, real, startup};
use truth::profiler::{Profiler, Scope};

use super::reproduce::reproduce;

pub fn footprint(out: &Path, agent: &Profiler, seconds: f64, rate_hz: u32) -> Result<()> {
    println!("perf-agent's own process over {seconds} s.\n");
    println!(
        "| what | Hz | samples | CPU % of a core, whole life | after the first second | peak RSS, MiB | its own ledger |"
    );
    println!("|---|--:|--:|--:|--:|--:|---|");
    let line = |what: &str, rate_hz: u32, scope: Scope| -> Result<()> {
        let f = footprint::measure(agent, scope, seconds, rate_hz)?;
        let ledger: Vec<String> = f.ledger.iter().map(|(k, v)| format!("{k}={v}")).collect();
        println!(
            "| {what} | {rate_hz} | {} | {:.2} | {:.2} | {:.1} | {} |",
            f.samples,
            f.cpu_pct,
            f.steady_cpu_pct,
            f.peak_rss_mib,
            ledger.join(" ")
        );
        Ok(())
    };
    {
        let target = startup::ticking(out, &["sleep", "300"], &big_libraries())?;
        line("one process, big libraries", 99, Scope::Process(target.pid()))?;
        line("one process, big libraries", rate_hz, Scope::Process(target.pid()))?;
    }
    let _compilation = real::compilation(4)?;
    line("-a during a parallel compilation", 99, Scope::Machine)?;
    line("-a during a parallel compilation", rate_hz, Scope::Machine)?;
    reproduce(&format!("footprint --seconds {seconds}"));
    Ok(())
}
