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
mod unharmed;
mod unwound;
mod wakers;

use std::path::PathBuf;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use testkit::{may_profile, perf_agent, skipped};
use truth::profiler::Profiler;

/// Tests that compare times run alone; the others, which need only enough samples, share the CPUs.
static TURNS: RwLock<()> = RwLock::new(());

/// The turn of a test.
enum Turn {
    Alone { _guard: RwLockWriteGuard<'static, ()> },
    Beside { _guard: RwLockReadGuard<'static, ()> },
}

impl Turn {
    /// Waits until no other test runs.
    fn alone() -> Self {
        Self::Alone { _guard: TURNS.write().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Waits until no test runs alone.
    fn beside() -> Self {
        Self::Beside { _guard: TURNS.read().unwrap_or_else(PoisonError::into_inner) }
    }
}

/// The binary under test and its turn; a test holds it while it runs.
struct Setup {
    agent: PathBuf,
    out: PathBuf,
    _turn: Turn,
}

impl Setup {
    /// For a test that compares times, and needs no rights of its own. None if this user may not profile; then the reason is printed.
    fn alone() -> Option<Self> {
        Self::in_turn(Turn::alone)
    }

    /// For a test that needs only enough samples, and no rights of its own. None if this user may not profile; then the reason is printed.
    fn beside_others() -> Option<Self> {
        Self::in_turn(Turn::beside)
    }

    fn in_turn(turn: fn() -> Turn) -> Option<Self> {
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
    fn as_root(setup: fn() -> Option<Self>) -> Option<Self> {
        is_root().then(setup)?
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

/// Where the programs are built.
fn out() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("programs")
}
