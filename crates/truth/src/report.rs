//! Builds, checks and prints the known-answer programs, each table with the command that makes it again.

use std::path::Path;

use anyhow::{Result, bail};
use truth::check::Outcome;
use truth::profiler::{PerfMode, Profiler};
use truth::programs::{Program, sources};
use truth::run::Plan;
use truth::table::Row;
use truth::verdict::Verdict;
use truth::{shares, table};

fn reproduce(arguments: &str) {
    println!("\nAgain: `cargo run --release -p truth -- {arguments}`, as root.\n");
}

pub fn build(programs: &[Program], out: &Path) -> Result<()> {
    for program in programs {
        match program.missing_compiler() {
            Some(why) => eprintln!("left out: {}: {why}", program.name),
            None => program.build(&sources(), out)?,
        }
    }
    Ok(())
}

/// How each program is profiled and judged.
pub struct Check<'a> {
    pub out: &'a Path,
    pub prebuilt: bool,
    pub profiler: &'a Profiler,
    pub plan: Plan,
    /// Demand no more than this, in per cent.
    pub floor: Option<f64>,
}

impl Check<'_> {
    /// The line to print, which is an error's if the program was not profiled well enough.
    fn judge(&self, program: &Program) -> Result<String, String> {
        let outcome =
            truth::check::check(program, self.out, self.prebuilt, self.profiler, self.plan, self.floor);
        let line = |verdict: &Verdict| {
            let (rooted, exact) = (verdict.rooted_pct(), verdict.exact_pct());
            let samples = verdict.samples;
            format!("{:34} {samples:6} samples, rooted {rooted:6.2} %, exact {exact:6.2} %", program.name)
        };
        match outcome {
            Ok(Outcome::Passed(verdict)) => Ok(format!("ok       {}", line(&verdict))),
            Ok(Outcome::Skipped(why)) => Ok(format!("left out: {} because {why}", program.name)),
            Ok(Outcome::Failed(verdict, why)) => {
                let inexact = verdict.inexact.iter().take(5);
                let stacks: String =
                    inexact.map(|(count, stack)| format!("\n         {count:6} x {stack}")).collect();
                Err(format!("{}  {why}{stacks}", line(&verdict)))
            }
            Err(error) => Err(format!("{:34} {error:#}", program.name)),
        }
    }

    pub fn run(&self, programs: &[Program]) -> Result<()> {
        let mut failed = 0;
        for program in programs {
            match self.judge(program) {
                Ok(line) => println!("{line}"),
                Err(line) => {
                    println!("FAILED   {line}");
                    failed += 1;
                }
            }
        }
        if failed > 0 {
            bail!("{failed} of {} programs failed", programs.len());
        }
        Ok(())
    }
}

pub fn table(programs: &[Program], out: &Path, agent: &Profiler, plan: Plan) -> Result<()> {
    println!(
        "perf-agent and `perf record --call-graph dwarf,65528` at {} Hz, the same {} s each.\n",
        plan.rate_hz, plan.seconds
    );
    println!("{}", Row::HEADING);
    for program in programs {
        if let Some(why) = program.missing_compiler() {
            eprintln!("left out: {}: {why}", program.name);
            continue;
        }
        match table::measure(program, out, agent, plan) {
            Ok(row) => {
                println!("{}", row.markdown());
                let unmarked = row.agent.0.inexact.iter().filter(|(_, stack)| !stack.starts_with('['));
                for (count, stack) in unmarked {
                    eprintln!("    {count} x {stack}");
                }
            }
            Err(error) => println!("| {} | failed: {error:#} |", program.name),
        }
    }
    println!();
    shares(out, agent, 10.0, Plan::default().rate_hz)?;
    reproduce("table");
    Ok(())
}

pub fn shares(out: &Path, agent: &Profiler, seconds: f64, rate_hz: u32) -> Result<()> {
    let perf = Profiler::Perf(PerfMode::FramePointers);
    let plan = Plan { seconds, rate_hz };
    println!("Shares of CPU time over {seconds} s at {rate_hz} Hz; truth 10, 20, 30, 40 %.\n");
    println!(
        "| profiler | burn_10 | burn_20 | burn_30 | burn_40 | worst error, points | samples | of rate x CPU time |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    for measured in shares::measure(out, &[agent.clone(), perf], plan)? {
        let columns: Vec<String> =
            measured.functions.iter().map(|(_, _, pct)| format!("{pct:.2} %")).collect();
        let ratio = measured.samples as f64 * 100.0 / measured.expected;
        let (name, worst) = (measured.profiler, measured.worst_error());
        println!("| {name} | {} | {worst:.2} | {} | {ratio:.1} % |", columns.join(" | "), measured.samples);
    }
    reproduce(&format!("shares --seconds {seconds}"));
    Ok(())
}
