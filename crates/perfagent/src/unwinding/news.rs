//! What may let a walk go on that waits: without news it would end where it ended before.

use std::collections::HashSet;

/// News since they were last taken.
#[derive(Default)]
pub(crate) struct News {
    /// A table or frame sections have come, or will not come.
    pub(super) of_files: bool,
    /// Processes whose mappings have changed.
    pub(super) processes: HashSet<u32>,
}

impl News {
    /// Frame sections have come as well, if `come`.
    pub(crate) fn with_sections(mut self, come: bool) -> Self {
        self.of_files |= come;
        self
    }

    /// Whether they may concern a stack of this process. Its program may have ended, and then it is no user of tables.
    pub(super) fn concern(&self, pid: u32) -> bool {
        self.of_files || self.processes.contains(&pid)
    }
}
