//! Which processes and threads the file tells of so far.

use std::collections::{HashMap, HashSet};

/// Threads that are remembered at most for each process; names of others are told again.
const MAX_THREADS: usize = 65_536;

/// Processes with their threads.
#[derive(Debug, Default)]
pub(super) struct Announced(HashMap<u32, HashSet<u32>>);

impl Announced {
    pub(super) fn knows(&self, pid: u32) -> bool {
        self.0.contains_key(&pid)
    }

    /// The thread is told now. Whether it was not before.
    pub(super) fn tell(&mut self, pid: u32, tid: u32) -> bool {
        let threads = self.0.entry(pid).or_default();
        if threads.len() >= MAX_THREADS {
            threads.clear();
        }
        threads.insert(tid)
    }

    pub(super) fn forget(&mut self, pid: u32) {
        self.0.remove(&pid);
    }
}
