//! From the start of perf-agent to the first complete stack.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use bench::big_libraries::big_libraries;
use bench::fleet::Fleet;
use bench::startup::{self, Caches, Start};
use testkit::find_command;
use truth::profiler::{Profiler, Scope};

use super::reproduce::reproduce;

pub fn startup(out: &Path, agent: &Profiler, rounds: usize, only: &[String], fleet: bool) -> Result<()> {
    println!("From the start of perf-agent's process to a sample, medians of {rounds}; ms, +-5.\n");
    println!(
        "| target | MiB mapped executable | caches | first sample | first complete stack | rooted %, all samples |\n|---|--:|---|--:|--:|--:|"
    );
    let mut targets: Vec<(&str, Vec<&str>, Vec<PathBuf>)> = vec![("small", vec!["sleep", "300"], Vec::new())];
    if find_command("node").is_some() {
        targets.push(("node", vec!["node", "-e", "setInterval(() => 0, 1000)"], Vec::new()));
    }
    let mut libraries = big_libraries();
    for library in &libraries {
        targets.push(("one big library", vec!["sleep", "300"], vec![library.clone()]));
    }
    libraries
        .dedup_by_key(|l| l.file_name().map(|n| n.to_string_lossy().chars().take(7).collect::<String>()));
    for (name, command, libraries) in targets {
        let name = libraries.first().and_then(|l| l.file_name()).map_or(name.into(), |n| n.to_string_lossy());
        if !only.is_empty() && !only.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        let target = startup::ticking(out, &command, &libraries)?;
        for caches in [Caches::Warm, Caches::Empty, Caches::Dropped] {
            let starts = (0..rounds)
                .map(|_| startup::measure(agent, &target, Scope::Process(target.pid()), 2.0, caches))
                .collect::<Result<Vec<_>>>()?;
            print_starts(&name, caches, &starts);
        }
    }
    if fleet {
        let fleet = Fleet::start(out, 300, 500).context("start a fleet")?;
        let target = startup::ticking(out, &["sleep", "300"], &[])?;
        let (processes, binaries) = fleet.size();
        for caches in [Caches::Warm, Caches::Empty] {
            let starts = (0..rounds)
                .map(|_| startup::measure(agent, &target, Scope::Machine, 4.0, caches))
                .collect::<Result<Vec<_>>>()?;
            print_starts(&format!("-a, {processes} processes, {binaries} binaries"), caches, &starts);
        }
    }
    reproduce(&format!("startup --rounds {rounds}{}", if fleet { " --fleet" } else { "" }));
    Ok(())
}

fn print_starts(name: &str, caches: Caches, starts: &[Start]) {
    let median = |time: fn(&Start) -> Option<Duration>| {
        let mut times: Vec<Duration> = starts.iter().filter_map(time).collect();
        times.sort();
        let missing = starts.len() - times.len();
        let text = times.get(times.len() / 2).map_or("never".into(), |t| t.as_millis().to_string());
        if missing > 0 { format!("{text} ({missing} never)") } else { text }
    };
    let caches = match caches {
        Caches::Warm => "warm",
        Caches::Empty => "own cache empty",
        Caches::Dropped => "and files not in memory",
    };
    let mib = starts.first().map_or(0.0, |s| s.mapped_bytes as f64 / f64::from(1 << 20));
    let rooted = starts.iter().map(|s| s.rooted_pct).sum::<f64>() / starts.len().max(1) as f64;
    println!(
        "| {name} | {mib:.0} | {caches} | {} | {} | {rooted:.2} |",
        median(|s| s.first_sample),
        median(|s| s.first_complete)
    );
}
