//! The targets and what they have started.

use std::collections::BTreeSet;

/// The targets and their descendants, as far as they were met alive.
#[derive(Clone, Debug)]
pub(in crate::sources) struct Family {
    members: BTreeSet<u32>,
    with_children: bool,
}

impl Family {
    pub(in crate::sources) fn new(targets: &[u32], with_children: bool) -> Self {
        Self { members: targets.iter().copied().collect(), with_children }
    }

    pub(in crate::sources) fn add(&mut self, pid: u32) {
        self.members.insert(pid);
    }

    /// The numbers of those that live now. A child whose parent has ended stays a member if it was met before.
    pub(in crate::sources) fn living(&mut self) -> Vec<u32> {
        let parents = process::task::parents().unwrap_or_default();
        let mut grows = self.with_children;
        // A child may be listed before its parent.
        while grows {
            let more: Vec<u32> = parents
                .iter()
                .filter(|(_, parent)| self.members.contains(parent))
                .map(|(pid, _)| *pid)
                .collect();
            let before = self.members.len();
            self.members.extend(more);
            grows = self.members.len() > before;
        }
        self.members.retain(|member| parents.iter().any(|(pid, _)| pid == member));
        self.members.iter().copied().collect()
    }
}
