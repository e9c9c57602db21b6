//! Shares of CPU time in Go programs, beside Go's own profile.

use std::path::Path;

use anyhow::{Result, bail};
use bench::go_profile::{Both, Shares, cases, distance};
use truth::profiler::Profiler;
use truth::run::Plan;

use super::reproduce::reproduce;

/// More standard errors than the largest of some fifty distances has by chance.
const TOO_FAR: f64 = 4.0;

pub fn go_profile(out: &Path, agent: &Profiler, plan: Plan, only: &[String]) -> Result<()> {
    println!(
        "Share of the samples below each function of a goroutine, per cent, and the distance in standard errors; {} s at {} Hz.\n",
        plan.seconds, plan.rate_hz
    );
    println!("| program | function | perf-agent | runtime/pprof | distance |\n|---|---|--:|--:|--:|");
    let (mut agents, mut owns) = (Shares::default(), Shares::default());
    let mut far = Vec::new();
    for case in cases() {
        if !only.is_empty() && !only.iter().any(|word| case.name.contains(word.as_str())) {
            continue;
        }
        if let Some(why) = case.missing() {
            eprintln!("left out: {}: {why}", case.name);
            continue;
        }
        let both = case.measure(agent, out, plan)?;
        for function in both
            .own
            .by_function
            .keys()
            .chain(both.agent.by_function.keys().filter(|f| !both.own.by_function.contains_key(*f)))
        {
            let apart = row(&case.name, function, &both, |shares| shares.of(function));
            if apart.abs() > TOO_FAR {
                far.push(format!("{function} of {}", case.name));
            }
        }
        row(&case.name, "all", &both, Shares::of_all);
        println!(
            "| {} | samples | {} ({} cut, {} left out) | {} | |",
            case.name, both.agent.samples, both.cut, both.agent.left_out, both.own.samples
        );
        agents.add(&both.agent);
        owns.add(&both.own);
    }
    let pooled = Both { agent: agents, own: owns, cut: 0 };
    let apart = row("all", "all", &pooled, Shares::of_all);
    println!("| all | samples | {} | {} | |", pooled.agent.samples, pooled.own.samples);
    reproduce(&format!("go-profile --seconds {} --rate {}", plan.seconds, plan.rate_hz));
    if apart.abs() > TOO_FAR {
        far.push("all functions together".to_owned());
    }
    if !far.is_empty() {
        bail!("further apart than {TOO_FAR} standard errors: {}", far.join(", "));
    }
    Ok(())
}

fn row(case: &str, function: &str, both: &Both, share: impl Fn(&Shares) -> f64) -> f64 {
    let (agent, own) = (share(&both.agent), share(&both.own));
    let apart = distance((agent, both.agent.samples), (own, both.own.samples));
    println!("| {case} | {function} | {:.2} | {:.2} | {apart:+.1} |", 100.0 * agent, 100.0 * own);
    apart
}
