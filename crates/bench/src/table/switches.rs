//! Work left to programs that switch all the time.

use std::path::Path;

use anyhow::Result;
use bench::switches::{LOADS, Tracer, measure, tracers};

use super::reproduce::reproduce;

pub fn switches(
    out: &Path,
    agent: Option<&Path>,
    more: &[String],
    rounds: usize,
    seconds: f64,
) -> Result<()> {
    println!("Work left to programs that switch, {rounds} rounds of {seconds} s windows, medians.\n");
    println!(
        "| program | hand-overs/s alone | traced by | work left | half quartile distance | lost | rooted |"
    );
    println!("|---|--:|---|--:|--:|--:|--:|");
    let tracers: Vec<Tracer> = tracers(agent.map(Path::to_owned), more);
    for load in LOADS {
        let measured = measure(out, *load, &tracers, rounds, seconds)?;
        for left in measured.left {
            println!(
                "| {} | {:.0} | {} | {:.1} % | {:.1} | {} | {} |",
                load.name,
                measured.per_second,
                left.tracer,
                left.left_pct,
                left.spread_pct,
                left.lost.map_or("-".into(), |n| n.to_string()),
                left.rooted_pct.map_or("-".into(), |pct| format!("{pct:.2} %")),
            );
        }
    }
    reproduce(&format!("switches --rounds {rounds} --seconds {seconds}"));
    Ok(())
}
