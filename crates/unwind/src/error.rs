//! Why a file yields no table at all.

/// Why [`crate::compile`] or [`crate::decode`] refused its input.
///
/// Defects inside of the unwind information are no errors; they are counted in [`crate::Stats`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes do not start with an ELF header.
    #[error("reading the ELF header: not a complete 64-bit little-endian ELF file")]
    NotElf,
    /// An architecture without rule translation.
    #[error("compiling unwind rows: ELF machine {0} is not supported (only x86-64, 62, and aarch64, 183)")]
    Machine(u16),
    /// The program headers lie outside of the file or none is executable.
    #[error("reading the program headers: no executable segment inside of the file (truncated file?)")]
    NoExecutableSegment,
    /// An encoded table that is too short for what its header announces.
    #[error("decoding an unwind table: {have} bytes, {need} needed")]
    Truncated {
        /// Bytes there are.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// An encoded table with another magic number or format version.
    #[error("decoding an unwind table: not of format version {expected}")]
    Version {
        /// The version this crate writes.
        expected: u32,
    },
    /// The checksum of an encoded table does not match its content.
    #[error("decoding an unwind table: checksum mismatch")]
    Checksum,
    /// An encoded table whose content breaks an invariant.
    #[error("decoding an unwind table: invalid {0}")]
    Invalid(&'static str),
}
