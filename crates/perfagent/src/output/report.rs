//! What became of an output.

use std::path::PathBuf;

use super::kind::OutputKind;
use crate::Error;

/// One output of a capture.
#[derive(Debug)]
#[non_exhaustive]
pub struct OutputReport {
    /// What it contains.
    pub kind: OutputKind,
    /// Where it is; none for sinks and standard output.
    pub path: Option<PathBuf>,
    /// Its size.
    pub bytes: u64,
    /// Whether it was written.
    pub result: Result<(), Error>,
}
