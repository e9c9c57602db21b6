//! What profiles of allocations cost.

use std::path::Path;

use anyhow::Result;
use bench::heap::measure;

use super::reproduce::reproduce;

pub fn heap(out: &Path, agent: &Path, rounds: usize, seconds: f64) -> Result<()> {
    println!(
        "CPU time of a pair of malloc and free, or of an allocation in Go; {rounds} rounds of {seconds} s, medians.\n"
    );
    println!("| | ns | factor |");
    println!("|---|--:|--:|");
    for cost in measure(out, agent, rounds, seconds)? {
        match (cost.ns, cost.factor) {
            (Ok(ns), Some(factor)) => println!("| {} | {ns:.1} | {factor:.2} |", cost.case.name),
            (Ok(ns), None) => println!("| {} | {ns:.1} | |", cost.case.name),
            (Err(reason), _) => println!("| {} | skipped: {reason} | |", cost.case.name),
        }
    }
    reproduce(&format!("heap --rounds {rounds} --seconds {seconds}"));
    Ok(())
}
