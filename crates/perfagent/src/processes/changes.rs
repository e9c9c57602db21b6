//! What of the processes has changed and has to be told to the kernel side.

use std::collections::HashSet;

/// Changes since they were last taken.
#[derive(Default)]
pub(crate) struct Changes {
    /// Processes with other mappings, another name, or tables that have become ready.
    pub(crate) changed: HashSet<u32>,
    /// Processes that have ended, and when (CLOCK_MONOTONIC).
    pub(crate) ended: Vec<(u32, u64)>,
    /// Processes whose program has ended: their tables are needed no more.
    pub(crate) released: Vec<u32>,
    /// Processes that have executed another program.
    pub(crate) executed: Vec<u32>,
}
