//! Why a file cannot be read.

use std::io;

/// Why a file is no perf.data file, or one that cannot be read. Each names the offset.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be read.
    #[error("read the perf.data file at offset {at}: {source}")]
    #[non_exhaustive]
    Io {
        /// Bytes before it.
        at: u64,
        /// What the system says.
        source: io::Error,
    },
    /// The file is shorter than it says.
    #[error("the perf.data file is cut off: {what} begins at offset {at}, and the file ends at offset {end}")]
    #[non_exhaustive]
    CutOff {
        /// What is not whole.
        what: &'static str,
        /// Where it begins.
        at: u64,
        /// Bytes of the file.
        end: u64,
    },
    /// Bytes that make no sense.
    #[error("{what} of the perf.data file, at offset {at}: {reason}")]
    #[non_exhaustive]
    Invalid {
        /// What they should be.
        what: &'static str,
        /// Where they are.
        at: u64,
        /// What is wrong.
        reason: String,
    },
    /// A file that is sound and cannot be read here.
    #[error("the perf.data file cannot be read: {reason}")]
    #[non_exhaustive]
    Unsupported {
        /// What is not supported, and what to do.
        reason: String,
    },
    /// Its stacks or mappings would take too much memory.
    #[error(
        "the perf.data file has more distinct stacks and mappings than {limit} bytes of memory can hold, at offset {at}"
    )]
    #[non_exhaustive]
    TooLarge {
        /// The record that is one too many.
        at: u64,
        /// The limit.
        limit: usize,
    },
}
