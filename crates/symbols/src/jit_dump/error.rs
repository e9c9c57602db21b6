//! Why a jitdump is not read.

/// Why a jitdump is not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JitDumpError {
    /// The file was opened and could not be read.
    #[error("read the jitdump: {0}")]
    Io(#[from] std::io::Error),
    /// It begins with something else.
    #[error("it does not begin as a jitdump does")]
    NoHeader,
    /// It was written on a machine with the other byte order.
    #[error("it is in the byte order of another machine")]
    OtherByteOrder,
    /// A version that is not known.
    #[error("it has version {0}; version 1 is known")]
    Version(u32),
}
