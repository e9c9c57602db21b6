//! perf-agent, the whole binary, on known-answer programs. A test that cannot run here prints the reason (`testkit::skip`).
#![expect(clippy::unwrap_used, reason = "a test's helper fails the test")]

mod blocking;
mod chaos;
mod containers;
mod heap;
mod known_answers;
mod ledgers;
mod leftovers;
mod lives;
mod locks;
mod measuring;
mod names;
mod privileges;
mod scheduling;
mod shares;
mod together;
mod twins;
mod wakers;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use testkit::{may_profile, perf_agent, skipped};
use truth::profiler::Profiler;

/// One capture at a time: they share the CPUs.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The binary under test and its turn; a test holds it while it runs.
struct Setup {
    agent: PathBuf,
    out: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Setup {
    /// For a test that runs perf-agent and needs no rights of its own. None if this user may not profile; then the reason is printed.
    fn get() -> Option<Self> {
        let Some(agent) = perf_agent() else {
            skipped("there is no perf-agent (cargo build --release -p cli, or $PERF_AGENT)");
            return None;
        };
        if let Err(reason) = may_profile(&agent) {
            skipped(reason);
            return None;
        }
        Some(Self { agent, out: out(), _turn: turn() })
    }

    /// For a test that itself looks into perf-agent's process or changes the system. None if it may not; then the reason is printed.
    fn as_root() -> Option<Self> {
        is_root().then(Self::get)?
    }

    fn profiler(&self) -> Profiler {
        Profiler::Agent(self.agent.clone(), Vec::new())
    }
}

/// Whether this is root; if not, prints the reason of the skip.
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skipped("needs root");
    }
    root
}

/// Waits until no other test measures.
fn turn() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the programs are built.
fn out() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("programs")
}
