//! Which process was made by which.

use std::collections::{HashMap, HashSet};

/// A process with the process that made it, and the one that it was found from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Relative {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) root: u32,
}

/// Processes with their children. A relation stays when the parent ends.
#[derive(Default)]
pub(super) struct Family(HashMap<u32, HashSet<u32>>);

impl Family {
    /// The relations that /proc shows. The children of a process that has ended belong to another one there.
    pub(super) fn read() -> Self {
        let mut family = Self::default();
        family.read_again();
        family
    }

    /// Adds the relations that /proc shows now.
    pub(super) fn read_again(&mut self) {
        for (child, parent) in process::task::parents().unwrap_or_default() {
            self.add(parent, child);
        }
    }

    /// A process made another one.
    pub(super) fn add(&mut self, parent: u32, child: u32) {
        self.0.entry(parent).or_default().insert(child);
    }

    /// All descendants of these processes. Parents come before their children.
    pub(super) fn descendants(&self, of: &[u32]) -> Vec<Relative> {
        let mut seen: HashSet<u32> = of.iter().copied().collect();
        let mut found: Vec<_> = of.iter().map(|pid| Relative { pid: *pid, parent: 0, root: *pid }).collect();
        let mut next = 0;
        while let Some(Relative { pid: parent, root, .. }) = found.get(next).copied() {
            let children = self.0.get(&parent).into_iter().flatten();
            let unseen = children.filter(|child| seen.insert(**child));
            found.extend(unseen.map(|pid| Relative { pid: *pid, parent, root }));
            next += 1;
        }
        found.split_off(of.len())
    }
}

/// This process and the processes that it descends from.
pub(super) fn own_line() -> Vec<u32> {
    let own = std::process::id();
    std::iter::successors(Some(own), |pid| Some(process::task::stat(*pid).ok()?.parent))
        .take_while(|pid| *pid > 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_belong_to_their_nearest_root() {
        let mut family = Family::default();
        for (parent, child) in [(1, 2), (2, 3), (3, 4), (1, 5), (9, 10), (4, 2)] {
            family.add(parent, child);
        }
        let mut found: Vec<_> =
            family.descendants(&[1, 3]).iter().map(|one| (one.pid, one.parent, one.root)).collect();
        found.sort_unstable();
        assert_eq!(found, [(2, 1, 1), (4, 3, 3), (5, 1, 1)]);
        assert_eq!(family.descendants(&[10]), []);
    }

    #[test]
    fn the_own_line_ends_with_the_first_process() {
        let line = own_line();
        assert_eq!(line[..2], [std::process::id(), std::os::unix::process::parent_id()]);
        assert!(line.contains(&1) || line.len() > 1, "{line:?}");
        assert!(Family::read().descendants(&line[1..2]).iter().any(|one| one.pid == line[0]));
    }
}
