//! The measurements themselves.
#![expect(clippy::unwrap_used, reason = "a test's helper fails the test")]

mod cost;
mod scenario;

use std::path::PathBuf;

use perfagent::{Agent, Error};

/// Whether this is root and may profile; if not, prints the reason of the skip.
fn may_profile() -> bool {
    if !rustix::process::geteuid().is_root() {
        testkit::skipped("needs root");
        return false;
    }
    let agent = Agent::builder().pid(std::process::id()).with_cpu_profile().build().unwrap();
    match agent.start() {
        Ok(()) => agent.stop().map(drop).unwrap(),
        Err(error @ Error::Privilege { .. }) => {
            testkit::skipped(error);
            return false;
        }
        Err(error) => panic!("{error}"),
    }
    true
}

/// Where programs are built; crate `truth` builds its own beside it.
fn out() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bench")
}
