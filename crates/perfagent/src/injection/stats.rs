//! What was done with the trampolines, as host programs see it.

use std::path::PathBuf;

use recording::TrampolineCounts;

/// What was done with the perf trampolines of CPython in the processes of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PythonStats {
    /// How many processes were switched, and why others were not.
    pub counts: TrampolineCounts,
    /// Processes whose trampoline may still be on after the end, with the cause as `TOKEN: …`.
    pub left_on: Vec<(u32, String)>,
    /// Processes with a perf map and its path as they see it; at most 64. The files stay.
    pub maps: Vec<(u32, PathBuf)>,
}
