//! Real programs beside `perf record`.

use anyhow::{Result, bail};
use bench::real;
use truth::profiler::Profiler;
use truth::run::Plan;

use super::reproduce::reproduce;

pub fn real(only: &[String], agent: &Profiler, plan: Plan) -> Result<()> {
    println!("Stacks that reach the start of their thread; the same {} s for both.\n", plan.seconds);
    println!(
        "| program | perf-agent: samples | rooted % | perf dwarf: samples | rooted % |\n|---|--:|--:|--:|--:|"
    );
    let mut lower = Vec::new();
    for program in real::PROGRAMS.iter().filter(|p| only.is_empty() || only.iter().any(|o| o == p.name)) {
        let Some(row) = real::measure(*program, agent, plan)? else {
            eprintln!("left out: {} because it is not installed", program.name);
            continue;
        };
        let (agent, perf) = (&row.agent, &row.perf);
        println!(
            "| {} | {} | {:.2} | {} | {:.2} |",
            program.name,
            agent.samples,
            agent.rooted_pct(),
            perf.samples,
            perf.rooted_pct()
        );
        for (count, stack) in agent.inexact.iter().take(3) {
            eprintln!("    {count} x {}", stack.chars().take(300).collect::<String>());
        }
        if agent.rooted_pct() < perf.rooted_pct() {
            lower.push(program.name);
        }
    }
    reproduce("real");
    if !lower.is_empty() {
        bail!("fewer complete stacks than perf record: {}", lower.join(", "));
    }
    Ok(())
}
