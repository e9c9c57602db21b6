//! Pass or fail: time of threads and processes that live for milliseconds, and of more threads than a table was made for.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::lab::{EACH_STATE, Lab, hardly_lost, nothing_lost};
use super::meter::read_number;
use crate::frame::Capture;
use crate::session::{Finished, Session, Subject};

/// What stands for the wait of a thread before its first moment on a CPU.
const NOT_RUN_YET: &str = "[not_run_yet]";
/// All options of a wall-clock profile.
const WALL: [&str; 4] = ["--profile", "--offcpu", EACH_STATE, "--wall-output"];

/// The sum of a wall-clock profile is the time that its threads lived.
fn is_whole(lab: &Lab, capture: &Capture) -> Result<()> {
    let identity = capture.ledger("wall.identity_pct").context("no identity in the ledger")?;
    let identity: f64 = identity.parse().context("the identity is no number")?;
    // An emulated guest sees its own programs late.
    let around = if lab.tolerance_pct > 5.0 { 95.0..=102.0 } else { 99.0..=100.5 };
    ensure!(around.contains(&identity), "sum / truth = {identity} %: {:?}", capture.comments);
    Ok(())
}

fn wall_of(lab: &Lab, program: &Path, arguments: &[&str]) -> Result<Finished> {
    Session::start(&lab.agent, &WALL, Subject::Command(program, arguments))?.finish()
}

/// Threads: each waits once for its first moment on a CPU.
pub(super) fn threads(lab: &Lab) -> Result<()> {
    let finished = wall_of(lab, &lab.programs.path("mayflies")?, &[&lab.ms.to_string()])?;
    let capture = finished.off_cpu()?;
    let lost = hardly_lost(&capture)?;
    is_whole(lab, &finished.wall()?)?;
    let threads = read_number(&finished.lines, "threads")?;
    // The first thread of the process was there before the capture.
    let (waits, ns) = capture.sums(|s| s.has(NOT_RUN_YET) && s.state == "preempted");
    ensure!(waits.abs_diff(threads) <= lost + 1 && ns > 0, "{waits} first waits of {threads} threads");
    Ok(())
}

/// Processes: a shell starts one after the other.
pub(super) fn processes(lab: &Lab) -> Result<()> {
    let script = "i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done";
    let finished = wall_of(lab, Path::new("/bin/sh"), &["-c", script])?;
    hardly_lost(&finished.off_cpu()?)?;
    is_whole(lab, &finished.wall()?)
}

/// Threads whose last switch comes when their process is gone already, and the capture with it: others keep their CPU busy.
pub(super) fn stragglers(lab: &Lab) -> Result<()> {
    // An emulated guest takes long for each.
    let captures = if lab.tolerance_pct > 5.0 { 2 } else { 8 };
    let program = lab.programs.path("stragglers")?;
    (0..captures).try_for_each(|_| {
        let _busy = lab.start("hogs", &["60000"])?;
        is_whole(lab, &wall_of(lab, &program, &["200"])?.wall()?)
    })
}

/// Every sleeping thread has room, however small the table for stacks is.
pub(super) fn crowd_in_small_tables(lab: &Lab) -> Result<()> {
    let target = lab.start("sleepers", &[&lab.crowd.to_string()])?;
    let options = ["--offcpu", "--max-stacks", "1024", "--duration", "1s"];
    let capture =
        Session::start(&lab.agent, &options, Subject::Process(target.pid()))?.finish()?.off_cpu()?;
    nothing_lost(&capture)?;
    let (blocks, threads) = (capture.sums(|_| true).0, lab.crowd + 1);
    ensure!(blocks == threads, "{blocks} intervals of {threads} sleeping threads");
    Ok(())
}
