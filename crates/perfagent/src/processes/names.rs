//! Names that processes give themselves so fast that the kernel side does not tell each: when to read them.

use std::collections::BTreeSet;

/// Names to be read.
#[derive(Default)]
pub(super) struct NameLooks {
    /// The time (CLOCK_MONOTONIC) and the process of each name. A process can be here twice: the next window may begin before the
    /// name of the last one was read.
    due: BTreeSet<(u64, u32)>,
    /// The same, by process: the end of one is found without looking at all others.
    of_process: BTreeSet<(u32, u64)>,
    /// Names that were taken this way. The kernel side has counted them as skipped.
    taken: u64,
}

impl NameLooks {
    /// The name of a process is to be read, not before `due_ns`.
    pub(super) fn plan(&mut self, pid: u32, due_ns: u64) {
        self.due.insert((due_ns, pid));
        self.of_process.insert((pid, due_ns));
    }

    /// The processes whose names can be read now; they are planned no more.
    pub(super) fn take_due(&mut self, now_ns: u64) -> Vec<u32> {
        let later = self.due.split_off(&(now_ns.saturating_add(1), 0));
        let due = std::mem::replace(&mut self.due, later);
        for &(due_ns, pid) in &due {
            self.of_process.remove(&(pid, due_ns));
        }
        due.into_iter().map(|(_, pid)| pid).collect()
    }

    /// The process has ended, or it has a new program and with it a new name.
    pub(super) fn forget(&mut self, pid: u32) {
        while let Some(&(_, due_ns)) = self.of_process.range((pid, 0)..=(pid, u64::MAX)).next() {
            self.of_process.remove(&(pid, due_ns));
            self.due.remove(&(due_ns, pid));
        }
    }

    /// A name that was read holds from now on.
    pub(super) fn count_taken(&mut self) {
        self.taken += 1;
    }

    /// The number of names that no sample shows. `skipped`: the names that the kernel side has not sent.
    pub(super) fn never_shown(&self, skipped: u64) -> u64 {
        skipped.saturating_sub(self.taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_once_when_its_window_has_ended() {
        let mut looks = NameLooks::default();
        looks.plan(1, 100);
        looks.plan(2, 200);
        looks.plan(3, 50);
        looks.plan(3, 60);
        looks.plan(4, 55);
        looks.forget(3);
        looks.forget(4);
        assert_eq!(looks.take_due(99), [0; 0]);
        assert_eq!(looks.take_due(100), [1]);
        assert_eq!(looks.take_due(100), [0; 0]);
        looks.count_taken();
        assert_eq!((looks.never_shown(10), looks.never_shown(0)), (9, 0));
        looks.plan(2, 300);
        assert_eq!(looks.take_due(200), [2], "a later one does not replace it");
        assert_eq!(looks.take_due(300), [2]);
    }
}
