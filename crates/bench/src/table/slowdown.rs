//! How much slower a program runs under each profiler.

use std::path::Path;

use anyhow::Result;
use bench::slowdown;

use super::reproduce::reproduce;

pub fn slowdown(
    out: &Path,
    agent: &Path,
    interpreter: Option<&Path>,
    rounds: usize,
    seconds: f64,
) -> Result<()> {
    let (target, modes, program) = match interpreter {
        Some(python) => (
            slowdown::python_program(python)?,
            slowdown::python_modes(agent),
            format!("program of 50 functions in Python ({})", python.display()),
        ),
        None => (slowdown::native_program(out)?, slowdown::modes(agent), "36-frame program in C".to_owned()),
    };
    println!("Slowdown of a {program}, {rounds} rounds of {seconds} s windows, medians.\n");
    println!("| profiler | by wall clock | half quartile distance | by CPU clock |\n|---|--:|--:|--:|");
    for row in slowdown::measure(&target, &modes, rounds, seconds)? {
        println!("| {} | {:.2} % | {:.2} | {:.2} % |", row.mode, row.wall_pct, row.spread_pct, row.cpu_pct);
    }
    let more = interpreter.map_or(String::new(), |python| format!(" --python {}", python.display()));
    reproduce(&format!("slowdown --rounds {rounds} --seconds {seconds}{more}"));
    Ok(())
}
