//! A place of a probe that the caller has found.

use std::path::PathBuf;

/// A place in a file: an offset at which an instruction begins.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionPlace {
    /// The file.
    pub path: PathBuf,
    /// The offset in it.
    pub offset: u64,
    /// The offset in it of the counter that a user of the place must raise, if there is one: that of a USDT probe.
    pub counter: Option<u64>,
}
