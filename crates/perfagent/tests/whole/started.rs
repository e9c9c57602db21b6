//! Captures of tests, where they are possible.

use perfagent::{Agent, Error};

/// Whether it runs now; says why not.
pub fn started(agent: &Agent) -> bool {
    match agent.start() {
        Ok(()) => true,
        Err(error) if is_refusal(&error) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Whether rights or the kernel are the cause of an error: then the reason of the skip is printed.
pub fn is_refusal(error: &Error) -> bool {
    if let Err(reason) = testkit::has_btf() {
        testkit::skipped(reason);
        return true;
    }
    let refused = matches!(error, Error::Privilege { .. } | Error::Unsupported { .. });
    if refused {
        testkit::skipped(error);
    }
    refused
}
