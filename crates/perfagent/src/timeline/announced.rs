//! Which processes and threads the file tells of so far.

use std::collections::{HashMap, HashSet};

/// Threads that are remembered at most for each process; names of others are told again.
const MAX_THREADS: usize = 65_536;

#[derive(Debug, Default)]
struct Known {
    threads: HashSet<u32>,
    /// 0 if it is not known.
    parent: u32,
}

/// Processes with their threads.
#[derive(Debug, Default)]
pub(super) struct Announced {
    processes: HashMap<u32, Known>,
    /// Processes that ended in this round, and in the one before. Samples of them may still be written.
    ended: [Vec<u32>; 2],
}

impl Announced {
    pub(super) fn knows(&self, pid: u32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// A process is told now, made by `parent` if that is known. Threads of an earlier one with the number are forgotten.
    pub(super) fn begin(&mut self, pid: u32, parent: u32) {
        self.processes.insert(pid, Known { threads: HashSet::from([pid]), parent });
    }

    /// The parent of a process; 0 if it is not known.
    pub(super) fn parent(&self, pid: u32) -> u32 {
        self.processes.get(&pid).map_or(0, |known| known.parent)
    }

    /// The thread is told now. Whether it was not before.
    pub(super) fn tell(&mut self, pid: u32, tid: u32) -> bool {
        let threads = &mut self.processes.entry(pid).or_default().threads;
        if threads.len() >= MAX_THREADS {
            threads.clear();
        }
        threads.insert(tid)
    }

    /// The thread ended: the next one with its number is another one.
    pub(super) fn forget_thread(&mut self, pid: u32, tid: u32) {
        if let Some(known) = self.processes.get_mut(&pid) {
            known.threads.remove(&tid);
        }
    }

    pub(super) fn end(&mut self, pid: u32) {
        self.ended[0].push(pid);
    }

    /// Ends a round: forgets processes that ended before it. One that got the number of such a process is told again.
    pub(super) fn end_round(&mut self) {
        let ended = std::mem::take(&mut self.ended[0]);
        for pid in std::mem::replace(&mut self.ended[1], ended) {
            self.processes.remove(&pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ended_is_forgotten_two_rounds_later_and_a_thread_at_once() {
        let mut announced = Announced::default();
        announced.begin(7, 1);
        assert_eq!((announced.parent(7), announced.parent(8)), (1, 0));
        assert!(!announced.tell(7, 7) && announced.tell(7, 8) && !announced.tell(7, 8));
        announced.forget_thread(7, 8);
        assert!(announced.tell(7, 8));
        announced.end(7);
        announced.end_round();
        assert!(announced.knows(7), "samples of it may still be written");
        announced.end_round();
        assert!(!announced.knows(7));
    }
}
