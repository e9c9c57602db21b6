//! Why a file could not be written.

use std::io;

/// Why a file could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file did not take the bytes.
    #[error("write {what}: {source}")]
    Io {
        /// What was written.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let Error::Io { source, .. } = error;
        source
    }
}
