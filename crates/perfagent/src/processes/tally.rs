//! How many processes there were, and how many of them could not be read.

use std::collections::HashSet;

use super::unread::Unread;

/// Counts of processes.
#[derive(Default)]
pub(super) struct Tally {
    /// Every process is a target.
    system: bool,
    /// Processes that were on this machine at the start or were forked since, kernel threads too; if the whole system
    /// is the target.
    met: u64,
    /// The processes at the start, and the time at which they were listed.
    listed: (HashSet<u32>, u64),
    /// Processes recorded so far.
    pub(super) seen: u64,
    /// The number of recorded processes whose mappings or files with code could not be read.
    pub(super) unreadable: u64,
    /// The processes whose mappings could not be read.
    pub(super) unread: Unread,
}

impl Tally {
    pub(super) fn new(system: bool) -> Self {
        Self { system, ..Self::default() }
    }

    /// These processes are there at the start.
    pub(super) fn list(&mut self, pids: &[u32], now_ns: u64) {
        self.met = pids.len() as u64;
        self.listed = (pids.iter().copied().collect(), now_ns);
    }

    /// Counts a fork, unless the child was listed.
    pub(super) fn meet(&mut self, child: u32, time_ns: u64) {
        let (listed, until_ns) = &mut self.listed;
        let again = time_ns <= *until_ns && listed.remove(&child);
        self.met += u64::from(self.system && !again);
        if !again {
            self.unread.forget(child);
        }
    }

    /// Counts a process whose number alone is known. It counts once. True if it was the first time.
    pub(super) fn count_unread(&mut self, pid: u32, error: &process::Error) -> bool {
        let first = self.unread.count(pid, error);
        self.unreadable += u64::from(first);
        first
    }

    /// The processes of this machine, if all are targets.
    pub(super) fn met(&self) -> u64 {
        self.met
    }

    /// The targets so far: of the whole system, all processes that there were.
    pub(super) fn targets(&self) -> u64 {
        if self.system { self.met } else { self.seen }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listed_child_whose_fork_is_told_later_counts_once() {
        let mut tally = Tally::new(true);
        tally.list(&[1, 2], 100);
        tally.meet(2, 90);
        assert_eq!(tally.targets(), 2);
        tally.meet(2, 95);
        tally.meet(1, 101);
        assert_eq!(tally.targets(), 4, "others with these numbers");
        assert_eq!(Tally::new(false).targets(), 0);
    }
}
