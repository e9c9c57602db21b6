//! Runs of a scenario, and several of them as one document.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use bench::aggregate::markdown;
use bench::record::{Run, Setting};
use bench::scenario::Scenario;

/// Measures, writes one file for each run, and prints them as one document.
pub fn scenario(out: &Path, setting: &Setting, runs: usize, seconds: f64, folder: &Path) -> Result<()> {
    let scenario = Scenario::prepare(setting.clone(), out)?;
    std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    let name: String =
        setting.words().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let mut all = Vec::new();
    for number in 1..=runs {
        let run = scenario.run(Duration::from_secs_f64(seconds))?;
        run.clone().write(&folder.join(format!("{}-{number}.json", name.replace("--", "-"))))?;
        all.push(run);
    }
    print!("{}", markdown(&all));
    println!("\nThe runs are in {}; `bench report FILE…` makes one document of several.", folder.display());
    Ok(())
}

/// Prints files of earlier runs as one document.
pub fn report(files: &[PathBuf]) -> Result<()> {
    let runs = files.iter().map(|file| Run::read(file)).collect::<Result<Vec<_>>>()?;
    print!("{}", markdown(&runs));
    Ok(())
}
