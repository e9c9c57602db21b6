//! Why a .NET runtime did not write its perf map, or does not stop to.

use std::io;

use crate::runtime_socket::SocketError;

/// Why a .NET runtime did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DotNetError {
    /// The process has ended, or its number has another one.
    #[error("it has ended")]
    Gone,
    /// It would do it when it goes on, which may be after the capture.
    #[error("it is stopped")]
    Stopped,
    /// It maps `libcoreclr.so`, and there is no socket.
    #[error(
        "it has no diagnostics socket in its TMPDIR or /tmp: it has just started, or runs with DOTNET_EnableDiagnostics=0; use DOTNET_PerfMapEnabled=1"
    )]
    NoSocket,
    /// The other user.
    #[error("it belongs to user {0}: run perf-agent as that user, or as root")]
    OtherUser(u32),
    /// A variable of its environment names another folder.
    #[error("{0} is set, so it would write its perf map there, and only /tmp is read")]
    OtherFolder(&'static str),
    /// Another user could put a link where it makes its map.
    #[error(
        "everybody may replace files in its /tmp, which has no sticky bit: its map could be led elsewhere"
    )]
    OpenFolder,
    /// Something is in the place of its map.
    #[error("{0} in its /tmp is no regular file of its user that it may write: remove it")]
    NotItsMap(String),
    /// It would run into its limit.
    #[error("it has nearly as many files open as its limit allows ({0})")]
    NoDescriptors(u64),
    /// More than are looked at.
    #[error("it has more than {0} files open")]
    TooManyFiles(usize),
    /// It said that it did, and has no such file open.
    #[error("it answered that it writes its perf map, and has none open in its /tmp")]
    NotOpened,
    /// Its socket cannot be connected to.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// It did not answer in time.
    #[error("it did not answer within {0} s: it may be busy, or in the hands of a debugger")]
    NoAnswer(u64),
    /// The connection ended, or broke, before the answer was whole.
    #[error("it ended the connection before it had answered")]
    Cut,
    /// It is no answer of a .NET runtime.
    #[error("its answer is not that of a .NET runtime")]
    Nonsense,
    /// The runtime does not know the command.
    #[error("its .NET is too old: .NET 8 or later can be asked; start it with DOTNET_PerfMapEnabled=1")]
    TooOld,
    /// The runtime has not begun to work.
    #[error("it has just started, or waits for a debugger")]
    Starting,
    /// Any other answer.
    #[error("it answered with error {0:#010x}")]
    Refused(u32),
    /// A file could not be made, opened, or read.
    #[error("{attempt}: {source}")]
    Io { attempt: &'static str, source: io::Error },
}

impl DotNetError {
    /// For `map_err`.
    pub(super) fn io<E: Into<io::Error>>(attempt: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Io { attempt, source: source.into() }
    }

    /// For files in `/proc`: of a process that is gone, all are missing.
    pub(super) fn of_proc(attempt: &'static str) -> impl FnOnce(io::Error) -> Self {
        use rustix::io::Errno;
        move |source| match Errno::from_io_error(&source) {
            Some(Errno::NOENT | Errno::SRCH) => Self::Gone,
            _ => Self::Io { attempt, source },
        }
    }

    /// Whether it may be otherwise in a moment, so that nobody need be told.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::NoSocket | Self::Starting)
    }

    /// Whether it may have done what it was asked for, or may do it later.
    pub(crate) fn may_have_obeyed(&self) -> bool {
        matches!(self, Self::NoAnswer(_) | Self::Cut | Self::Nonsense)
    }
}
