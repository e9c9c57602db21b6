//! Control groups for targets to move between.

use std::path::PathBuf;

use testkit::ControlGroup;

/// Two control groups of version 2, where this machine lets them be made.
pub(super) struct Groups(Vec<ControlGroup>);

impl Groups {
    pub(super) fn new() -> Self {
        Self(["one", "other"].into_iter().filter_map(ControlGroup::of_version_2).collect())
    }

    /// The files that processes write to in order to move.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.0.iter().map(|group| group.path().join("cgroup.procs")).collect()
    }
}
