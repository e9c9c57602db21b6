//! Why a file could not be read.

use std::io;

use crate::file::section::{MAJOR, MINOR};

/// Why a file could not be read. Each error names the offset in the file at which the problem was found: that of a section if the
/// section is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The source failed.
    #[error("offset {offset}: cannot read: {source}")]
    Io {
        /// Bytes read so far.
        offset: u64,
        /// Why.
        source: io::Error,
    },
    /// The file does not begin as recordings do.
    #[error("offset 0: not a recording")]
    Magic,
    /// The file has another major version.
    #[error("offset 8: format version {major}.{minor}, but this program reads version {MAJOR}.{MINOR}")]
    Version {
        /// Major version of the file.
        major: u16,
        /// Minor version of the file.
        minor: u16,
    },
    /// The file ends too early.
    #[error("offset {offset}: the file is truncated")]
    Truncated {
        /// Where it ends.
        offset: u64,
    },
    /// Bytes were altered.
    #[error("offset {offset}: the checksum of {part} is wrong")]
    Checksum {
        /// Where the part begins.
        offset: u64,
        /// Name of the part.
        part: &'static str,
    },
    /// The content of a section does not follow the format.
    #[error("offset {offset}: section `{section}` is malformed at byte {at} of its content: {reason}")]
    Malformed {
        /// Where the section begins.
        offset: u64,
        /// Name of the section.
        section: &'static str,
        /// Byte of the decompressed content.
        at: usize,
        /// What is wrong.
        reason: String,
    },
    /// An id has no item.
    #[error("offset {offset}: section `{section}`, byte {at} of its content: {kind} {id} does not exist")]
    Dangling {
        /// Where the section begins.
        offset: u64,
        /// Name of the section.
        section: &'static str,
        /// Byte of the decompressed content.
        at: usize,
        /// What the id is an index of.
        kind: &'static str,
        /// The id.
        id: u32,
    },
    /// A limit of the format is exceeded.
    #[error("offset {offset}: section `{section}` is too large: {reason}")]
    TooLarge {
        /// Where the section begins.
        offset: u64,
        /// Name of the section.
        section: &'static str,
        /// Which limit.
        reason: String,
    },
    /// Bytes follow the end of the recording.
    #[error("offset {offset}: bytes follow the end of the recording")]
    Trailing {
        /// Where they begin.
        offset: u64,
    },
}

impl ReadError {
    /// The offset in the file at which the problem was found.
    #[must_use]
    pub fn offset(&self) -> u64 {
        match *self {
            Self::Magic => 0,
            Self::Version { .. } => 8,
            Self::Io { offset, .. }
            | Self::Truncated { offset }
            | Self::Checksum { offset, .. }
            | Self::Malformed { offset, .. }
            | Self::Dangling { offset, .. }
            | Self::TooLarge { offset, .. }
            | Self::Trailing { offset } => offset,
        }
    }
}
