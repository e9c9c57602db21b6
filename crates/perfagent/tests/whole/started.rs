//! Captures of tests, where they are possible.

use perfagent::{Agent, Error};

/// Whether it runs now; says why not.
pub fn started(agent: &Agent) -> bool {
    if let Err(reason) = testkit::has_btf() {
        testkit::skipped(reason);
        return false;
    }
    match agent.start() {
        Ok(()) => true,
        Err(error @ (Error::Privilege { .. } | Error::Unsupported { .. })) => {
            testkit::skipped(error);
            false
        }
        Err(error) => panic!("{error}"),
    }
}
