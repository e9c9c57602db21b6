//! Why a process could not be read.

use std::io;
use std::path::Path;

use rustix::io::Errno;

/// Why a process could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such process, any more or at all.
    #[error("process {pid} does not exist")]
    Gone {
        /// The process.
        pid: u32,
    },
    /// The kernel refused.
    #[error("read {path}: permission denied; other users' processes need CAP_SYS_PTRACE")]
    Permission {
        /// The process.
        pid: u32,
        /// The file.
        path: String,
    },
    /// Anything else.
    #[error("read {path}: {source}")]
    Io {
        /// The process.
        pid: u32,
        /// The file.
        path: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl Error {
    /// Sorts the failure to read `path` of `pid`.
    pub(crate) fn of(pid: u32, path: &Path, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            Some(Errno::NOENT | Errno::SRCH) => Self::Gone { pid },
            Some(Errno::ACCESS | Errno::PERM) => Self::Permission { pid, path: path.display().to_string() },
            _ => Self::Io { pid, path: path.display().to_string(), source },
        }
    }
}
