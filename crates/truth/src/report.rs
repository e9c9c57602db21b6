//! Runs the measurements and prints their tables, each with the command that makes it again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use truth::check::Outcome;
use truth::compile::find_command;
use truth::cost::Motion;
use truth::profiler::{PerfMode, Profiler, Scope};
use truth::programs::{Program, sources};
use truth::run::Plan;
use truth::startup::{Caches, Crowd, Start};
use truth::table::Row;
use truth::tries::until_it_holds;
use truth::verdict::Verdict;
use truth::{cost, footprint, real, shares, slowdown, startup, table};

pub fn reproduce(arguments: &str) {
    println!("\nAgain: `cargo run --release -p truth -- {arguments}`, as root.\n");
}

pub fn build(programs: &[Program], out: &Path) -> Result<()> {
    for program in programs {
        match program.missing_compiler() {
            Some(c) => eprintln!("skipped: {} because {} is missing", program.name, c.command()),
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
    /// How often a program is tried at most.
    pub tries: usize,
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
            Ok(Outcome::Skipped(why)) => Ok(format!("skipped: {} because {why}", program.name)),
            Ok(Outcome::Failed(verdict, why)) => {
                let wrong = verdict.wrong.iter().take(5);
                let stacks: String =
                    wrong.map(|(count, stack)| format!("\n         {count:6} x {stack}")).collect();
                Err(format!("{}  {why}{stacks}", line(&verdict)))
            }
            Err(error) => Err(format!("{:34} {error:#}", program.name)),
        }
    }

    pub fn run(&self, programs: &[Program]) -> Result<()> {
        let mut failed = 0;
        for program in programs {
            let tried = until_it_holds(self.tries, || self.judge(program));
            tried.lines(program.name.as_ref()).for_each(|line| println!("{line}"));
            match tried.last {
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
        "perf-agent at {} Hz and `perf record --call-graph dwarf,65528` at {} Hz, the same {} s each.\n",
        plan.rate_hz, plan.perf_rate_hz, plan.seconds
    );
    println!("{}", Row::HEADING);
    for program in programs {
        if let Some(compiler) = program.missing_compiler() {
            eprintln!("skipped: {} because {} is missing", program.name, compiler.command());
            continue;
        }
        match table::measure(program, out, agent, plan) {
            Ok(row) => println!("{}", row.markdown()),
            Err(error) => println!("| {} | failed: {error:#} |", program.name),
        }
    }
    println!();
    shares(out, agent, 10.0, plan.rate_hz)?;
    cost(out, agent, 5.0, plan.rate_hz)?;
    reproduce("table");
    Ok(())
}

pub fn shares(out: &Path, agent: &Profiler, seconds: f64, rate_hz: u32) -> Result<()> {
    let perf = Profiler::Perf(PerfMode::FramePointers);
    let plan = Plan { seconds, rate_hz, perf_rate_hz: rate_hz };
    println!("Shares of CPU time over {seconds} s at {rate_hz} Hz; truth 10, 20, 30, 40 %.\n");
    println!(
        "| profiler | burn_10 | burn_20 | burn_30 | burn_40 | worst error, points | samples | of rate x CPU time |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    for said in shares::measure(out, &[agent.clone(), perf], plan)? {
        let columns: Vec<String> = said.functions.iter().map(|(_, _, pct)| format!("{pct:.2} %")).collect();
        let ratio = said.samples as f64 * 100.0 / said.expected;
        let (name, worst) = (said.profiler, said.worst_error());
        println!("| {name} | {} | {worst:.2} | {} | {ratio:.1} % |", columns.join(" | "), said.samples);
    }
    reproduce(&format!("shares --seconds {seconds}"));
    Ok(())
}

pub fn cost(out: &Path, agent: &Profiler, seconds: f64, rate_hz: u32) -> Result<()> {
    println!(
        "Kernel time per sample, all of perf-agent's BPF programs, as a ratio to a bare bpf_get_stack.\n"
    );
    println!("| frames | motion | samples | perf-agent, ns | bare, ns | bare: frames | ratio |");
    println!("|--:|---|--:|--:|--:|--:|--:|");
    for motion in [Motion::Staying, Motion::Reentered] {
        for frames in [16, 40, 125, 200] {
            let c = cost::measure(out, agent, frames, motion, seconds, rate_hz)?;
            println!(
                "| {frames} | {} | {} | {:.0} | {:.0} | {:.0} | {:.2} |",
                motion.name(),
                c.samples,
                c.agent_ns,
                c.bare_ns,
                c.bare_frames,
                c.ratio()
            );
        }
    }
    println!(
        "\nA sample of another process costs {:.0} ns, which are not in the table.",
        cost::turned_away_ns(out, agent, seconds, rate_hz)?
    );
    println!(
        "\nThe kernel's walker stops at 127 frames: at 200 the ratio compares a whole stack with a cut one."
    );
    reproduce(&format!("cost --seconds {seconds} --rate {rate_hz}"));
    Ok(())
}

pub fn slowdown(out: &Path, agent: &Profiler, rounds: usize, seconds: f64) -> Result<()> {
    println!("Slowdown of a 36-frame program, {rounds} rounds of {seconds} s windows, medians.\n");
    println!("| profiler | by wall clock | half quartile distance | by CPU clock |\n|---|--:|--:|--:|");
    for row in slowdown::measure(out, &slowdown::modes(agent), rounds, seconds)? {
        println!("| {} | {:.2} % | {:.2} | {:.2} % |", row.mode, row.wall_pct, row.spread_pct, row.cpu_pct);
    }
    reproduce(&format!("slowdown --rounds {rounds} --seconds {seconds}"));
    Ok(())
}

/// Big libraries of this machine: LLVM and the Rust compiler.
fn big_libraries() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in ["/usr/lib/llvm-14/lib", "/usr/lib/x86_64-linux-gnu"] {
        found.extend(file_in(Path::new(folder), "libLLVM"));
    }
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().ok();
    let sysroot = sysroot.map(|o| PathBuf::from(String::from_utf8_lossy(&o.stdout).trim()));
    found.extend(sysroot.and_then(|root| file_in(&root.join("lib"), "librustc_driver")));
    found.dedup();
    found
}

fn file_in(folder: &Path, prefix: &str) -> Option<PathBuf> {
    let names = std::fs::read_dir(folder).ok()?.flatten().map(|e| e.path());
    names
        .filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(prefix)))
        .filter_map(|p| p.canonicalize().ok())
        .find(|p| p.extension().is_some_and(|e| e != "a"))
}

pub fn startup(out: &Path, agent: &Profiler, rounds: usize, only: &[String], crowd: bool) -> Result<()> {
    println!("From the start of perf-agent's process to a sample, medians of {rounds}; ms, +-5.\n");
    println!(
        "| target | MiB mapped executable | caches | first sample | first complete stack | rooted %, all samples |\n|---|--:|---|--:|--:|--:|"
    );
    let mut targets: Vec<(&str, Vec<&str>, Vec<PathBuf>)> = vec![("small", vec!["sleep", "300"], Vec::new())];
    if find_command("node").is_some() {
        targets.push(("node", vec!["node", "-e", "setInterval(() => 0, 1000)"], Vec::new()));
    }
    let mut libraries = big_libraries();
    for library in &libraries {
        targets.push(("one big library", vec!["sleep", "300"], vec![library.clone()]));
    }
    libraries
        .dedup_by_key(|l| l.file_name().map(|n| n.to_string_lossy().chars().take(7).collect::<String>()));
    for (name, command, libraries) in targets {
        let name = libraries.first().and_then(|l| l.file_name()).map_or(name.into(), |n| n.to_string_lossy());
        if !only.is_empty() && !only.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        let target = startup::ticking(out, &command, &libraries)?;
        for caches in [Caches::Warm, Caches::Empty, Caches::Dropped] {
            let starts = (0..rounds)
                .map(|_| startup::measure(agent, &target, Scope::Process(target.pid()), 2.0, caches))
                .collect::<Result<Vec<_>>>()?;
            print_starts(&name, caches, &starts);
        }
    }
    if crowd {
        let crowd = Crowd::gather(out, 300, 500).context("gather a crowd")?;
        let target = startup::ticking(out, &["sleep", "300"], &[])?;
        let (processes, binaries) = crowd.size();
        for caches in [Caches::Warm, Caches::Empty] {
            let starts = (0..rounds)
                .map(|_| startup::measure(agent, &target, Scope::Machine, 4.0, caches))
                .collect::<Result<Vec<_>>>()?;
            print_starts(&format!("-a, {processes} processes, {binaries} binaries"), caches, &starts);
        }
    }
    reproduce(&format!("startup --rounds {rounds}{}", if crowd { " --crowd" } else { "" }));
    Ok(())
}

fn print_starts(name: &str, caches: Caches, starts: &[Start]) {
    let median = |time: fn(&Start) -> Option<Duration>| {
        let mut times: Vec<Duration> = starts.iter().filter_map(time).collect();
        times.sort();
        let missing = starts.len() - times.len();
        let text = times.get(times.len() / 2).map_or("never".into(), |t| t.as_millis().to_string());
        if missing > 0 { format!("{text} ({missing} never)") } else { text }
    };
    let caches = match caches {
        Caches::Warm => "warm",
        Caches::Empty => "own cache empty",
        Caches::Dropped => "and files not in memory",
    };
    let mib = starts.first().map_or(0.0, |s| s.mapped_bytes as f64 / f64::from(1 << 20));
    let rooted = starts.iter().map(|s| s.rooted_pct).sum::<f64>() / starts.len().max(1) as f64;
    println!(
        "| {name} | {mib:.0} | {caches} | {} | {} | {rooted:.2} |",
        median(|s| s.first_sample),
        median(|s| s.first_complete)
    );
}

pub fn footprint(out: &Path, agent: &Profiler, seconds: f64, rate_hz: u32) -> Result<()> {
    println!("perf-agent's own process over {seconds} s.\n");
    println!(
        "| what | Hz | samples | CPU % of a core, whole life | after the first second | peak RSS, MiB | its own ledger |"
    );
    println!("|---|--:|--:|--:|--:|--:|---|");
    let line = |what: &str, rate_hz: u32, scope: Scope| -> Result<()> {
        let f = footprint::measure(agent, scope, seconds, rate_hz)?;
        let ledger: Vec<String> = f.ledger.iter().map(|(k, v)| format!("{k}={v}")).collect();
        println!(
            "| {what} | {rate_hz} | {} | {:.2} | {:.2} | {:.1} | {} |",
            f.samples,
            f.cpu_pct,
            f.steady_cpu_pct,
            f.peak_rss_mib,
            ledger.join(" ")
        );
        Ok(())
    };
    {
        let target = startup::ticking(out, &["sleep", "300"], &big_libraries())?;
        line("one process, big libraries", 99, Scope::Process(target.pid()))?;
        line("one process, big libraries", rate_hz, Scope::Process(target.pid()))?;
    }
    let _compilation = real::compilation(4)?;
    line("-a during a parallel compilation", 99, Scope::Machine)?;
    line("-a during a parallel compilation", rate_hz, Scope::Machine)?;
    reproduce(&format!("footprint --seconds {seconds}"));
    Ok(())
}

pub fn real(only: &[String], agent: &Profiler, plan: Plan) -> Result<()> {
    println!("Stacks that reach the start of their thread; the same {} s for both.\n", plan.seconds);
    println!(
        "| program | perf-agent: samples | rooted % | perf dwarf: samples | rooted % |\n|---|--:|--:|--:|--:|"
    );
    let mut lower = Vec::new();
    for program in real::PROGRAMS.iter().filter(|p| only.is_empty() || only.iter().any(|o| o == p.name)) {
        let Some(row) = real::measure(*program, agent, plan)? else {
            eprintln!("skipped: {} because it is not installed", program.name);
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
        for (count, stack) in agent.wrong.iter().take(3) {
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
