//! The first seconds of a build, with and without perf-agent's tables on disk.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use bench::build::{self, Build, Project, Scope};

use super::reproduce::reproduce;

const CASES: [(&str, Project, Scope); 3] = [
    ("cargo build", Project::Cargo, Scope::Command),
    ("make -j2", Project::Make, Scope::Command),
    ("-a beside make -j2", Project::Make, Scope::Machine),
];

pub fn build(agent: &(PathBuf, Vec<String>), rounds: usize, only: &[String]) -> Result<()> {
    println!("Clean builds from their first process on, {rounds} of each; all their samples together.\n");
    println!("| what | tables on disk | samples | rooted % | of single builds | cut | processes | lost |");
    println!("|---|---|--:|--:|---|---|--:|--:|");
    let (agent, more) = agent;
    for (name, project, scope) in CASES {
        if !only.is_empty() && !only.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        let folder = tempfile::tempdir().context("create a folder")?;
        let (project_folder, cache) = (folder.path().join("project"), folder.path().join("cache"));
        let measure = || build::measure(agent, more, project, scope, &project_folder, &cache);
        let mut cold = Vec::new();
        for _ in 0..rounds {
            let _ = std::fs::remove_dir_all(&cache);
            cold.push(measure()?);
        }
        let warm = (0..rounds).map(|_| measure()).collect::<Result<Vec<_>>>()?;
        print_row(name, "none", cold);
        print_row(name, "all", warm);
    }
    reproduce(&format!("build --rounds {rounds}"));
    Ok(())
}

fn print_row(name: &str, tables: &str, builds: Vec<Build>) {
    let single: Vec<String> = builds.iter().map(|build| format!("{:.2}", build.rooted_pct())).collect();
    let mut whole = Build::default();
    let count = builds.len().max(1);
    builds.into_iter().for_each(|build| whole.add(build));
    let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
    for ((_, cause), count) in &whole.cut {
        *causes.entry(cause.trim_start_matches("[truncated: ").trim_end_matches(']')).or_default() += count;
    }
    let causes: Vec<String> = causes.into_iter().map(|(cause, count)| format!("{cause} {count}")).collect();
    println!(
        "| {name} | {tables} | {} | {:.2} | {} | {} | {} | {} |",
        whole.samples,
        whole.rooted_pct(),
        single.join(", "),
        causes.join(", "),
        whole.processes / count,
        whole.lost
    );
    let mut places: Vec<_> = whole.cut.into_iter().collect();
    places.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for ((comm, cause), count) in places.into_iter().take(8) {
        eprintln!("    {count} x {comm}: {cause}");
    }
}
