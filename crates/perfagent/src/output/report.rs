//! The result of writing an output.

use std::path::PathBuf;

use super::kind::OutputKind;
use crate::Error;

/// One output of a capture.
#[derive(Debug)]
#[non_exhaustive]
pub struct OutputReport {
    /// Its kind.
    pub kind: OutputKind,
    /// Its path; none for sinks and standard output.
    pub path: Option<PathBuf>,
    /// Its size.
    pub bytes: u64,
    /// Whether writing it succeeded.
    pub result: Result<(), Error>,
}
