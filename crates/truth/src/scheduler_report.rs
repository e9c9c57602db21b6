//! Runs the measurements of time off the CPU and of the scheduler, and prints their tables.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use truth::blocking::{CASES, Lab, Offcputime, Timehist, compare, read_meters};
use truth::compile::find_command;
use truth::programs::Scheduling;
use truth::roots::Roots;
use truth::session::{Session, Whom};
use truth::switches::{LOADS, Tracer, tracers};
use truth::target::Target;
use truth::tries::until_it_holds;
use truth::{endurance, latency, switches};

use crate::report::reproduce;

/// Each claim of `blocking::CASES`, tried up to `tries` times: pass or fail.
pub fn check_blocking(lab: &Lab, tries: usize) -> Result<()> {
    let mut failed = 0;
    for (name, case) in CASES {
        let tried = until_it_holds(tries, || case(lab));
        tried.lines(&format!("off-CPU: {name}")).for_each(|line| println!("{line}"));
        match tried.last {
            Ok(()) => println!("ok       off-CPU: {name}"),
            Err(error) => {
                println!("FAILED   off-CPU: {name}: {error:#}");
                failed += 1;
            }
        }
    }
    if failed > 0 {
        bail!("{failed} of {} claims about time off the CPU failed", CASES.len());
    }
    Ok(())
}

/// One run of the program that blocks in many ways, under all profilers at once; of the `others` only if so asked.
pub fn off_cpu(out: &Path, agent: Option<&Path>, others: bool, seconds: f64) -> Result<()> {
    let programs = Scheduling::new(out);
    let (ms, folder) = ((seconds * 1000.0) as u64, out.display().to_string());
    for (program, arguments) in [
        ("blocking", vec![ms.to_string(), folder, "wait".into()]),
        ("hogs", { vec![ms.to_string(), "wait".into()] }),
    ] {
        let path = programs.path(program)?;
        let mut target = Target::start_command(std::process::Command::new(path).args(arguments))?;
        let files = tempfile::tempdir().context("create a folder")?;
        let options = ["--offcpu", "--offcpu-states", "blocked,iowait,preempted", "--duration", "600s"];
        let session = agent.map(|agent| -> Result<Session> {
            let mut session = Session::start(agent, &options, Whom::Process(target.pid()))?;
            session.until_attached()?;
            Ok(session)
        });
        let session = session.transpose()?;
        let peer = (others && Offcputime::is_here())
            .then(|| Offcputime::start(Some(target.pid()), files.path()))
            .transpose()?;
        let perf =
            (others && find_command("perf").is_some()).then(|| Timehist::start(files.path())).transpose()?;
        thread::sleep(Duration::from_millis(700));
        let pid = target.pid();
        target.go()?;
        let lines = target.lines_to_end();
        let by_offcputime = peer.map(Offcputime::finish).transpose()?.unwrap_or_default();
        let by_thread = perf.map(|perf| perf.finish(pid)).transpose()?.unwrap_or_default();
        let capture = session.map(|s| s.finish()?.off_cpu()).transpose()?.unwrap_or_default();
        let mut truth = read_meters(&lines)?;
        truth.retain(|m| m.kind != "process");
        let roots = Roots::default();
        println!("\n{program}, {seconds} s: time off the CPU by function; the same run for all.\n");
        println!(
            "| function | true, ms | perf-agent, ms | error | blocks: true | said | preempted: true | said | iowait \
             | complete | its thread: bcc's offcputime, ms | perf sched timehist, ms |"
        );
        println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
        let shown = |ns: u64| format!("{:.3}", ns as f64 / 1e6);
        for said in compare(&capture, &truth) {
            let name = &said.truth.name;
            let in_it = capture.sums(|s| s.has(name)).0;
            let complete = capture.sums(|s| s.has(name) && roots.is_rooted(s)).0;
            println!(
                "| {name} | {} | {} | {:+.3} % | {} | {} | {} | {} | {:.0} % | {:.2} % | {} | {} |",
                shown(said.truth.off_cpu_ns()),
                shown(said.ns),
                said.error_pct(),
                said.truth.voluntary,
                said.blocks,
                said.truth.involuntary,
                said.preemptions,
                said.iowait_ns as f64 * 100.0 / said.ns.max(1) as f64,
                complete as f64 * 100.0 / in_it.max(1) as f64,
                shown(by_offcputime.sums(|s| s.comm == *name).1),
                by_thread.get(name).map_or("-".into(), |ns| shown(*ns)),
            );
        }
        let lost = capture.ledger("lost").unwrap_or("-");
        println!(
            "\nperf-agent lost {lost}. offcputime walks by frame pointers: its stacks end in libc, its sums are by thread."
        );
    }
    let without = if others { "" } else { " --agent-only" };
    reproduce(&format!("offcpu --seconds {seconds}{without}"));
    Ok(())
}

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
        let measured = switches::measure(out, *load, &tracers, rounds, seconds)?;
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

pub fn latency(out: &Path, agent: &Path, seconds: f64) -> Result<()> {
    let (programs, ms) = (Scheduling::new(out), (seconds * 1000.0) as u64);
    println!("Run-queue latency and switches, the same {seconds} s for all; ns.\n");
    println!(
        "| program | waits: perf-agent | by perf's events | median: perf-agent | by events | longest: perf-agent \
         | by events | perf sched latency | voluntary: perf-agent | the kernel's count | by events | preempted: perf-agent \
         | the kernel's count | by events |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for load in latency::LOADS {
        let row = latency::measure(agent, &programs, *load, ms)?;
        let (count, median, longest) = row.agent.runqueue;
        let (preempted, voluntary, io_wait) = row.agent.switches;
        println!(
            "| {} | {count} | {} | {median} | {} | {longest} | {} | {} | {} | {} | {} | {preempted} | {} | {} |",
            load.name,
            row.events.latencies_ns.len(),
            row.events.percentile_ns(50.0).unwrap_or(0),
            row.events.percentile_ns(100.0).unwrap_or(0),
            row.perf_max_ns,
            voluntary + io_wait,
            row.kernel.0,
            row.events.voluntary,
            row.kernel.1,
            row.events.preempted,
        );
    }
    println!(
        "\nThe kernel's count is taken before the process ends: each thread's end is one more voluntary switch."
    );
    println!("\n| counter | perf-agent | perf stat, the same seconds |\n|---|--:|--:|");
    for (name, agent, perf) in latency::counters(agent, &programs, ms)? {
        println!("| {name} | {agent} | {perf:.0} |");
    }
    reproduce(&format!("latency --seconds {seconds}"));
    Ok(())
}

/// All modes on a busy machine; with a limit for the growth of memory, pass or fail.
pub fn endurance(out: &Path, agent: &Path, seconds: f64, limit_pct: Option<f64>) -> Result<()> {
    let measured = endurance::measure(agent, &Scheduling::new(out), seconds)?;
    println!(
        "perf-agent --profile --offcpu --wakers --pmu --per-pid --wall-output -a, {seconds} s, while {} processes came and \
         went.\n",
        measured.processes
    );
    println!("| s | resident, MiB |\n|--:|--:|");
    for (at, kib) in &measured.resident {
        println!("| {at:.1} | {:.1} |", *kib as f64 / 1024.0);
    }
    println!("\nGrowth from the second quarter to the last: {:.1} %.", measured.growth_pct());
    let [before, after] = measured.rate_alone;
    println!(
        "On-CPU samples/s: {before:.1} alone before, {:.1} with all modes, {after:.1} alone afterwards: {:.3} of those \
         alone.",
        measured.rate_with_all,
        measured.rate_ratio()
    );
    println!("\n| ledger | key | |\n|---|---|--:|");
    for (mode, key, value) in measured.losses() {
        println!("| {mode} | {key} | {value} |");
    }
    if let Some(identity) = measured.identity_pct() {
        println!("| wall clock | sum / truth | {identity:.2} % |");
    }
    reproduce(&format!("endurance --seconds {seconds}"));
    limit_pct.map_or(Ok(()), |limit| measured.judge(limit))
}
