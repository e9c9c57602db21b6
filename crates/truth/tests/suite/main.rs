//! perf-agent, the whole binary, on known-answer programs. Each test that cannot run here says why in one line.
#![expect(clippy::unwrap_used, reason = "a test's helper fails the test")]

mod blocking;
mod known_answers;
mod ledgers;
mod leftovers;
mod lives;
mod measuring;
mod privileges;
mod scheduling;
mod shares;
mod together;
mod twins;
mod wakers;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use truth::profiler::{Profiler, agent_binary};

/// One capture at a time: they share the CPUs.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What a test holds while it runs.
struct Bench {
    agent: PathBuf,
    out: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Bench {
    /// The bench, or nothing and a line that says why.
    fn get(test: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: {test} because it needs root");
            return None;
        }
        let Some(agent) = agent_binary() else {
            eprintln!(
                "skipped: {test} because there is no perf-agent (cargo build --release -p cli, or $PERF_AGENT)"
            );
            return None;
        };
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Self { agent, out: out(), _turn: turn })
    }

    fn profiler(&self) -> Profiler {
        Profiler::Agent(self.agent.clone(), Vec::new())
    }
}

/// Where the programs are built.
fn out() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("programs")
}
