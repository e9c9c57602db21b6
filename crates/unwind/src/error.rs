//! Why a file has no table.

/// Why [`crate::compile`] or [`crate::decode`] refused its input.
///
/// Defects of the unwind information are not errors; [`crate::Stats`] counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes do not start with an ELF header.
    #[error("reading the ELF header: not a complete 64-bit little-endian ELF file")]
    NotElf,
    /// An architecture without rule translation.
    #[error("compiling unwind rows: ELF machine {0} is not supported (only x86-64, 62, and aarch64, 183)")]
    Machine(u16),
    /// The program headers are outside the file, or none is executable.
    #[error("reading the program headers: no executable segment inside the file (truncated file?)")]
    NoExecutableSegment,
    /// An encoded table that is shorter than its header says.
    #[error("decoding an unwind table: {have} bytes, {need} needed")]
    Truncated {
        /// The available bytes.
        have: usize,
        /// The needed bytes.
        need: usize,
    },
    /// An encoded table with another magic number or format version.
    #[error("decoding an unwind table: not of format version {expected}")]
    Version {
        /// The version that this crate writes.
        expected: u32,
    },
    /// The checksum of an encoded table does not match its content.
    #[error("decoding an unwind table: checksum mismatch")]
    Checksum,
    /// An encoded table whose content breaks an invariant.
    #[error("decoding an unwind table: invalid {0}")]
    Invalid(&'static str),
}
