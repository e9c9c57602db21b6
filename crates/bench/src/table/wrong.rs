//! Pairs of frames that cannot be true, in profiles.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use truth::pairs::{Fate, Pairs};
use truth::profiler::read_pprof;

const HEADING: &str = "\
| profile | samples | wrong | pairs judged % | by indirect calls % | by indirect jumps % | entries and signals % | not in a file % | without extent % |
|---|--:|--:|--:|--:|--:|--:|--:|--:|";

pub fn wrong(files: &[PathBuf]) -> Result<()> {
    println!("{HEADING}");
    let mut all = Pairs::default();
    for file in files {
        let capture = read_pprof(file).with_context(|| format!("judge {}", file.display()))?;
        let pairs = Pairs::of(&capture);
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        println!("{}", line(name.split('.').next().unwrap_or_default(), &pairs));
        for (count, fate, text) in pairs.wrong.iter().take(20) {
            eprintln!("    {count} x {fate:?}: {text}");
        }
        all.add(&pairs);
    }
    println!("{}", line("all", &all));
    if all.wrong_samples > 0 {
        bail!("{} samples have a pair of frames that cannot be true", all.wrong_samples);
    }
    if !all.by_fate.iter().any(|(fate, count)| fate.is_judged() && *count > 0) {
        bail!("no pair of frames was judged");
    }
    Ok(())
}

fn line(name: &str, pairs: &Pairs) -> String {
    let of = |fates: &[Fate]| format!("{:.2}", pairs.percent(|fate| fates.contains(&fate)));
    format!(
        "| {name} | {} | {} | {:.2} | {} | {} | {} | {} | {} |",
        pairs.samples,
        pairs.wrong_samples,
        pairs.percent(Fate::is_judged),
        of(&[Fate::IndirectCall]),
        of(&[Fate::IndirectJump]),
        of(&[Fate::Entry, Fate::Signal]),
        of(&[Fate::NoFile]),
        of(&[Fate::NoExtent])
    )
}
