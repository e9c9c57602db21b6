//! Why a call was not made.

use std::io;

/// Why a call was not made, or did not end.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The thread or its process has ended, or executes another program.
    #[error("it has ended, or executes another program")]
    Ended,
    /// The kernel refuses to let the thread be stopped.
    #[error("it may not be traced: {0}")]
    Denied(String),
    /// Something was not done in time.
    #[error("{0} in time")]
    Late(&'static str),
    /// A function ran into a fault, which has been undone.
    #[error("a function in it ran into signal {0}")]
    Fault(i32),
    /// The target is not such that calls can be made.
    #[error("no function can be called in it: {0}")]
    Unfit(&'static str),
    /// Any other failure.
    #[error("{attempt}: {source}")]
    Io {
        /// What was attempted.
        attempt: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl CallError {
    /// For `map_err`. A thread that is no longer there has ended.
    pub(crate) fn io(attempt: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.raw_os_error() {
            Some(3) => Self::Ended,
            _ => Self::Io { attempt, source },
        }
    }
}
