//! perf-agent beside a crowd.

use std::path::Path;

use anyhow::Result;
use bench::crowd::{Crowd, Size};
use bench::scale;

use super::reproduce::reproduce;

/// One line for each mode, without the crowd and beside it.
pub fn scale(out: &Path, agent: &Path, size: Size, seconds: f64, more: &[String]) -> Result<()> {
    let Size { processes, threads, binaries, text_gib, wakeups } = size;
    println!(
        "perf-agent -a for {seconds} s beside {processes} processes with {threads} threads, {binaries} distinct programs and {text_gib} GiB of mapped code, \
         {wakeups} wake-ups a second.\n"
    );
    println!(
        "| modes | crowd | start, s | its CPU, s | CPU while sampling, % | end, s | all CPU, s | peak RSS, MiB | kernel, MiB | samples | lost | rooted, % |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let mut warnings = Vec::new();
    let mut line = |crowd: &str, modes: &[&str]| -> Result<()> {
        let options: Vec<&str> = modes.iter().copied().chain(more.iter().map(String::as_str)).collect();
        let of = scale::measure(agent, &options, seconds)?;
        println!(
            "| {} | {crowd} | {:.2} | {:.2} | {:.1} | {:.2} | {:.2} | {:.0} | {:.1} | {} | {} | {} |",
            modes.join(" "),
            of.start.as_secs_f64(),
            of.start_cpu.as_secs_f64(),
            of.cpu_pct,
            of.end.as_secs_f64(),
            of.all_cpu.as_secs_f64(),
            of.peak_mib,
            of.kernel_mib,
            of.samples,
            of.lost,
            of.rooted_pct,
        );
        warnings.extend(of.warnings);
        Ok(())
    };
    let modes: [&[&str]; 2] = [&["--profile"], &["--profile", "--offcpu"]];
    modes.iter().try_for_each(|modes| line("no", modes))?;
    let crowd = Crowd::start(out, size)?;
    modes.iter().try_for_each(|modes| line("yes", modes))?;
    drop(crowd);
    warnings.sort();
    warnings.dedup();
    println!();
    warnings.iter().for_each(|warning| println!("- {warning}"));
    reproduce(&format!(
        "scale --processes {processes} --threads {threads} --binaries {binaries} --text-gib {text_gib} --wakeups {wakeups} --seconds {seconds}"
    ));
    Ok(())
}
