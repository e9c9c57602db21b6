//! A place of a probe that the caller has found.

use std::path::PathBuf;

/// A place in a file: an offset at which an instruction begins.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionPlace {
    /// The file.
    pub path: PathBuf,
    /// The offset in it.
    pub offset: u64,
}
