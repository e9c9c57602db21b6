//! Names, lines and inlined calls of addresses of one file.

use std::path::Path;

use anyhow::Result;
use bench::statistics::summary;
use bench::symbolize::{Chain, Cost, LATER, OURS, PEER, TOOLS, addresses, library, read, run};

pub fn symbolize(file: &Path, count: usize, rounds: usize, differences: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let input = folder.path().join("addresses");
    let addresses = addresses(file, count)?;
    std::fs::write(&input, addresses.iter().map(|address| format!("{address:#x}\n")).collect::<String>())?;
    println!(
        "{} distinct addresses of {}, sorted, with inlined calls, files and lines; {rounds} alternating rounds, medians.\n",
        addresses.len(),
        file.display(),
    );
    let names = folder.path().join("names");
    // It keeps what the later runs need.
    run(LATER, file, &input, &folder.path().join("answers"), &names)?;
    let mut costs: Vec<Vec<Cost>> = TOOLS.map(|_| Vec::new()).to_vec();
    let mut answers: Vec<Vec<Chain>> = TOOLS.map(|_| Vec::new()).to_vec();
    for round in 0..rounds.max(1) {
        for (number, tool) in TOOLS.iter().enumerate() {
            let output = folder.path().join("answers");
            match run(tool, file, &input, &output, &names) {
                Ok(cost) => costs[number].push(cost),
                Err(error) if round == 0 => println!("{error:#}\n"),
                // It was told that this tool does not run here.
                Err(_) if costs[number].is_empty() => {}
                Err(error) => return Err(error),
            }
            if round == 0 && !costs[number].is_empty() {
                answers[number] = read(&output)?;
            }
        }
    }
    println!(
        "| tool | CPU s | without printing | s | times perf-agent's | peak MiB | frames | frames and lines as llvm-symbolizer | all names too |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|");
    let [ours, .., peer] = answers.as_slice() else { return Ok(()) };
    for (number, tool) in TOOLS.iter().enumerate() {
        let cpu = summary(costs[number].iter().map(|cost| cost.cpu_s).collect());
        let wall = summary(costs[number].iter().map(|cost| cost.wall_s).collect());
        let alone: Vec<f64> = costs[number].iter().filter_map(|cost| cost.answers_s).collect();
        let ratio = costs[number].iter().zip(&costs[0]).map(|(cost, own)| cost.cpu_s / own.cpu_s);
        let ratio = summary(ratio.collect()).median;
        let peak = summary(costs[number].iter().map(|cost| cost.peak_mib).collect()).median;
        let frames: usize = answers[number].iter().map(Vec::len).sum();
        let [placed, same, known] = agreement(&answers[number], peer);
        let share = |count: usize| 100.0 * count as f64 / known.max(1) as f64;
        println!(
            "| {tool} | {:.3} | {} | {:.2} | {ratio:.2} | {peak:.0} | {frames} | {:.2} % of {known} | {:.2} % |",
            cpu.median,
            if alone.is_empty() { String::new() } else { format!("{:.3}", summary(alone).median) },
            wall.median,
            share(placed),
            share(same),
        );
    }
    println!();
    let different = ours
        .iter()
        .zip(peer)
        .zip(&addresses)
        .filter(|((ours, peer), _)| is_known(peer) && !is_placed(ours, peer));
    for ((ours, peer), address) in different.take(differences) {
        println!("{address:#x}\n  perf-agent      {ours:?}\n  llvm-symbolizer {peer:?}");
    }
    Ok(())
}

/// One address of a file with many functions and no debug information: what the table of symbols costs.
pub fn symbol_table(functions: usize, rounds: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let library = library(folder.path(), functions)?;
    let (input, output) = (folder.path().join("address"), folder.path().join("answer"));
    let address = addresses(&library, 1)?;
    std::fs::write(&input, format!("{:#x}\n", address[0]))?;
    println!(
        "One address of a library of {functions} functions without debug information; {rounds} alternating rounds, medians.\n"
    );
    println!("| tool | ms | CPU ms | peak MiB | answer |\n|---|--:|--:|--:|---|");
    let tools = [OURS, PEER];
    let mut costs: [Vec<Cost>; 2] = Default::default();
    let mut answers: [Vec<Chain>; 2] = Default::default();
    for _ in 0..rounds.max(1) {
        for (number, tool) in tools.iter().enumerate() {
            match run(tool, &library, &input, &output, folder.path()) {
                Ok(cost) => costs[number].push(cost),
                Err(error) => {
                    println!("{error:#}");
                    continue;
                }
            }
            answers[number] = read(&output)?;
        }
    }
    for (number, tool) in tools.iter().enumerate().filter(|(number, _)| !costs[*number].is_empty()) {
        let median = |of: &dyn Fn(&Cost) -> f64| summary(costs[number].iter().map(of).collect()).median;
        println!(
            "| {tool} | {:.1} | {:.1} | {:.0} | {} |",
            1e3 * median(&|cost| cost.wall_s),
            1e3 * median(&|cost| cost.cpu_s),
            median(&|cost| cost.peak_mib),
            answers[number].first().and_then(|chain| chain.first()).map_or("", |frame| &frame.0),
        );
    }
    Ok(())
}

/// Answers with the same frames and lines; those with the same names besides; all where the peer knows a function.
fn agreement(answers: &[Chain], peer: &[Chain]) -> [usize; 3] {
    let known: Vec<_> = answers.iter().zip(peer).filter(|(_, peer)| is_known(peer)).collect();
    let placed = known.iter().filter(|(answer, peer)| is_placed(answer, peer)).count();
    [placed, known.iter().filter(|(answer, peer)| answer == peer).count(), known.len()]
}

/// Whether functions, files and lines are the same. llvm-symbolizer takes the name of the outermost function from the symbol table: one of
/// several of equal code, or that of a part (`.part.0`, `.cold`).
fn is_placed(answer: &Chain, peer: &Chain) -> bool {
    let Some(((_, inlined), (_, of_peer))) = answer.split_last().zip(peer.split_last()) else { return false };
    let places =
        |chain: &Chain| chain.iter().map(|(_, file, line)| (file.clone(), *line)).collect::<Vec<_>>();
    inlined.iter().map(|frame| &frame.0).eq(of_peer.iter().map(|frame| &frame.0))
        && places(answer) == places(peer)
}

fn is_known(chain: &Chain) -> bool {
    chain.first().is_some_and(|(name, _, _)| name != "??")
}
