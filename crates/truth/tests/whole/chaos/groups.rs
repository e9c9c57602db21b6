//! Control groups for targets to move between.

use std::fs;
use std::path::{Path, PathBuf};

/// Two control groups of version 2, where this machine lets them be made; removed when dropped.
pub(super) struct Groups(Vec<PathBuf>);

impl Groups {
    pub(super) fn new() -> Self {
        let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
        let Some(root) = roots.into_iter().find(|root| root.join("cgroup.controllers").exists()) else {
            return Self(Vec::new());
        };
        let paths =
            ["one", "other"].map(|name| root.join(format!("perf-agent-chaos-{}-{name}", std::process::id())));
        Self(paths.into_iter().filter(|path| fs::create_dir(path).is_ok()).collect())
    }

    /// The files that processes write to in order to move.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.0.iter().map(|group| group.join("cgroup.procs")).collect()
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for group in &self.0 {
            // Processes that were killed are in it for some moments more.
            testkit::holds_within(testkit::PATIENCE, || fs::remove_dir(group).is_ok());
        }
    }
}
