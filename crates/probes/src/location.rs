//! Where a target is.

use std::ops::Range;

/// The place of a target in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Location {
    /// Its offset in the file, which the kernel wants.
    pub offset: u64,
    /// Its link-time address.
    pub address: u64,
    /// The name in the symbol table, if the target was a name.
    pub symbol: Option<String>,
    /// The addresses of the function whose entry this is, up to the next symbol. Empty if its size is not known; `None` if this is no entry by name.
    pub(crate) function: Option<Function>,
}

/// A function whose entry was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// From its entry to its end.
    pub addresses: Range<u64>,
    /// Where the next symbol is, which may be another entry into the same code.
    pub next_symbol: u64,
}
