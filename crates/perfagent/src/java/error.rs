//! Why a JVM did not write its perf map.

use std::io;

use crate::runtime_socket::SocketError;

/// Why a JVM did not write its perf map.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JavaError {
    /// The process has ended, or its number has another one.
    #[error("it has ended")]
    Gone,
    /// It is stopped: the signal would wait until it goes on.
    #[error("it is stopped")]
    Stopped,
    /// SIGQUIT would end it.
    #[error("it does not catch SIGQUIT: it has just started, or runs with -Xrs; the signal would end it")]
    NotCaught,
    /// An option forbids attaching.
    #[error("it runs with {0}: use -XX:+DumpPerfMapAtExit, or start it without that option")]
    Forbidden(&'static str),
    /// Another kind of JVM, which does something else on SIGQUIT.
    #[error("it is an OpenJ9 JVM; only HotSpot is asked")]
    OpenJ9,
    /// A file could not be made, opened, or read.
    #[error("{attempt}: {source}")]
    Io { attempt: &'static str, source: io::Error },
    /// The other user.
    #[error("it belongs to user {0}: run perf-agent as that user, or as root")]
    OtherUser(u32),
    /// It did not begin to listen.
    #[error("it did not answer within {0} s: it may be busy, or in the hands of a debugger")]
    NoAnswer(u64),
    /// Its socket cannot be connected to.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The JVM does not know the command.
    #[error("its Java is too old: JDK 17 or later can write a perf map")]
    TooOld,
    /// Any other answer.
    #[error("it answered: {0}")]
    Refused(String),
}

impl JavaError {
    /// For `map_err`.
    pub(super) fn io<E: Into<io::Error>>(attempt: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Io { attempt, source: source.into() }
    }

    /// Whether it may be otherwise in a moment, so that nobody need be told.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::NotCaught)
    }
}
