//! Why a perf map is not read.

use std::io;
use std::path::PathBuf;

/// Why a perf map is not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PerfMapError {
    /// The process has written none.
    #[error("process {pid} has no perf map at {tried:?}")]
    Missing {
        /// The process.
        pid: u32,
        /// Where it could have been.
        tried: Vec<PathBuf>,
    },
    /// It exists, but another user or another program may have written it.
    #[error("perf map {path} of process {pid} is not used: {reason}")]
    Refused {
        /// The process.
        pid: u32,
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: &'static str,
    },
    /// A system call failed.
    #[error("open perf map {path} of process {pid}: {source}")]
    Io {
        /// The process.
        pid: u32,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}
