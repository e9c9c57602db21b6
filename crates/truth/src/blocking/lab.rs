//! Shared by the claims about time off the CPU: the programs, the tolerances, and what may be lost.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::frame::Capture;
use crate::programs::Scheduling;
use crate::session::{Finished, Session, Subject};
use crate::target::Target;

/// All states.
pub(super) const EACH_STATE: &str = "--offcpu-states=blocked,iowait,preempted";
/// What the cases need.
#[derive(Clone, Debug)]
pub struct Lab {
    /// The binary under test.
    pub agent: PathBuf,
    /// The programs.
    pub programs: Scheduling,
    /// Allowed difference of times in per cent.
    pub tolerance_pct: f64,
    /// Allowed difference of times for each block: what lies between a clock of the program and the switch itself.
    pub per_block_ns: u64,
    /// Length of each capture.
    pub ms: u64,
    /// Number of threads where there are many.
    pub crowd: u64,
}

impl Lab {
    pub(super) fn command(&self, options: &[&str], program: &str, arguments: &[&str]) -> Result<Finished> {
        let path = self.programs.path(program)?;
        Session::start(&self.agent, options, Subject::Command(&path, arguments))?.finish()
    }

    /// Whether the CPUs are emulated: a block may differ by much, and an interrupt each millisecond comes too often.
    pub(super) fn is_emulated(&self) -> bool {
        self.per_block_ns >= 100_000
    }

    pub(super) fn milliseconds(&self) -> String {
        self.ms.to_string()
    }

    /// Whether a measured time is the true one.
    pub(super) fn near(&self, what: &str, measured_ns: u64, true_ns: u64) -> Result<()> {
        // A border between a clock and its neighbour costs microseconds; one tick of the kernel is 4 ms.
        let allowed = true_ns as f64 * self.tolerance_pct / 100.0 + 1e6;
        let error = measured_ns as f64 - true_ns as f64;
        ensure!(error.abs() <= allowed, "{what}: {measured_ns} ns, but {true_ns} ns are true");
        Ok(())
    }

    pub(super) fn start(&self, program: &str, arguments: &[&str]) -> Result<Target> {
        Target::start_command(std::process::Command::new(self.programs.path(program)?).args(arguments))
    }
}

/// The number of lost intervals in the ledger.
fn lost(capture: &Capture) -> Result<u64> {
    Ok(capture.ledger("lost").context("the ledger has no key lost")?.parse()?)
}

pub(super) fn nothing_lost(capture: &Capture) -> Result<()> {
    ensure!(lost(capture)? == 0, "lost: {:?}", capture.comments);
    Ok(())
}

/// Next to nothing is lost, and no more than a kernel hides: sandboxes exist whose own threads switch untraced, so that the
/// thread that follows one of them comes back unseen. Gives the number.
pub(super) fn hardly_lost(capture: &Capture) -> Result<u64> {
    let (lost, all) = (lost(capture)?, capture.sums(|_| true).0);
    let all = all + capture.ledger("skipped.min_block").and_then(|n| n.parse().ok()).unwrap_or(0);
    ensure!(lost <= 3 + all / 500, "lost: {:?}", capture.comments);
    Ok(lost)
}
