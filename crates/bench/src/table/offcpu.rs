//! Time off the CPU by function.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use bench::offcpu::{Offcputime, Timehist};
use testkit::find_command;
use truth::blocking::{compare, read_meters};
use truth::programs::Scheduling;
use truth::roots::Roots;
use truth::session::{Session, Subject};
use truth::target::Target;

use super::reproduce::reproduce;

/// One run of the program that blocks in many ways, under all profilers at once. Other tracers run only if `others` asks for them.
pub fn off_cpu(out: &Path, agent: Option<&Path>, others: bool, seconds: f64) -> Result<()> {
    let programs = Scheduling::new(out);
    let (ms, folder) = ((seconds * 1000.0) as u64, out.display().to_string());
    for (program, arguments) in [
        ("blocking", vec![ms.to_string(), folder, "wait".into()]),
        ("hogs", { vec![ms.to_string(), "wait".into()] }),
    ] {
        let path = programs.path(program)?;
        let mut target = Target::start_command(Command::new(path).args(arguments))?;
        let files = tempfile::tempdir().context("create a folder")?;
        let options = ["--offcpu", "--offcpu-states", "blocked,iowait,preempted", "--duration", "600s"];
        let session = agent.map(|agent| -> Result<Session> {
            let mut session = Session::start(agent, &options, Subject::Process(target.pid()))?;
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
            "| function | true, ms | perf-agent, ms | error | blocks: true | measured | preempted: true | measured | iowait \
             | complete | its thread: bcc's offcputime, ms | perf sched timehist, ms |"
        );
        println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
        let shown = |ns: u64| format!("{:.3}", ns as f64 / 1e6);
        for measured in compare(&capture, &truth) {
            let name = &measured.truth.name;
            let in_it = capture.sums(|s| s.has(name)).0;
            let complete = capture.sums(|s| s.has(name) && roots.is_rooted(s)).0;
            println!(
                "| {name} | {} | {} | {:+.3} % | {} | {} | {} | {} | {:.0} % | {:.2} % | {} | {} |",
                shown(measured.truth.off_cpu_ns()),
                shown(measured.ns),
                measured.error_pct(),
                measured.truth.voluntary,
                measured.blocks,
                measured.truth.involuntary,
                measured.preemptions,
                measured.iowait_ns as f64 * 100.0 / measured.ns.max(1) as f64,
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
