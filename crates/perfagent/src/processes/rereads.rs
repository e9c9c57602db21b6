//! Decides which processes are read again from /proc, and when: single processes on request, and all of them after records were
//! lost. Reading takes the time of the capture thread, so both are limited.

use std::collections::{HashMap, HashSet, VecDeque};

/// A process that keeps running code outside of its known mappings is read again at most this often.
const EACH_NS: u64 = 50_000_000;
/// While records are lost without end, all processes are read again at most this often.
const SWEEP_NS: u64 = 500_000_000;

/// Between two comparisons with the processes that the kernel side knows.
const COMPARE_NS: u64 = 200_000_000;
/// Comparisons after a loss: at once, and again when everything that was in the ring before the loss has been handled.
const COMPARISONS: u32 = 2;

/// The processes to be read again.
#[derive(Default)]
pub(super) struct Rereads {
    wanted: HashSet<u32>,
    /// When a process was last read because it was wanted.
    read_ns: HashMap<u32, u64>,
    /// Records were lost since the last sweep began.
    sweep_wanted: bool,
    sweep_began_ns: Option<u64>,
    /// The rest of a sweep over all processes.
    sweep: VecDeque<u32>,
    /// Processes that no record has told of, and since when they are recorded.
    unknown_pids: VecDeque<(u32, u64)>,
    /// So many comparisons with the kernel side are still to come.
    comparisons: u32,
    compared_ns: Option<u64>,
}

impl Rereads {
    /// The mappings of a process are unknown or out of date.
    pub(super) fn want(&mut self, pid: u32) {
        self.wanted.insert(pid);
    }

    /// The process has another program: nothing is known of its mappings.
    pub(super) fn want_at_once(&mut self, pid: u32) {
        self.wanted.insert(pid);
        self.read_ns.remove(&pid);
    }

    /// The mappings of every process may be out of date.
    pub(super) fn want_all(&mut self) {
        self.sweep_wanted = true;
    }

    /// The process has ended.
    pub(super) fn forget(&mut self, pid: u32) {
        self.wanted.remove(&pid);
        self.read_ns.remove(&pid);
    }

    /// The processes that were asked for and whose time has come.
    pub(super) fn take_due(&mut self, now_ns: u64) -> Vec<u32> {
        let Self { wanted, read_ns, .. } = self;
        let is_due = |pid: &u32| read_ns.get(pid).is_none_or(|read| now_ns - read >= EACH_NS);
        let due: Vec<u32> = wanted.extract_if(is_due).collect();
        read_ns.extend(due.iter().map(|pid| (*pid, now_ns)));
        due
    }

    /// Begins a sweep over `all` if one is wanted and the last one is over.
    pub(super) fn begin_sweep(&mut self, now_ns: u64, all: impl FnOnce() -> Vec<u32>) {
        let too_early = self.sweep_began_ns.is_some_and(|began| now_ns - began < SWEEP_NS);
        if self.sweep_wanted && self.sweep.is_empty() && !too_early {
            self.sweep_wanted = false;
            self.sweep_began_ns = Some(now_ns);
            self.sweep = all().into();
        }
    }

    /// Whether the known processes are to be compared with those of the kernel side now. `lost`: records of life were
    /// lost just before.
    pub(super) fn is_comparison_due(&mut self, lost: bool, now_ns: u64) -> bool {
        if lost {
            self.comparisons = COMPARISONS;
        }
        let too_early = self.compared_ns.is_some_and(|compared| now_ns - compared < COMPARE_NS);
        if self.comparisons == 0 || too_early {
            return false;
        }
        self.comparisons -= 1;
        self.compared_ns = Some(now_ns);
        true
    }

    /// A process was found that no record has told of. It is recorded since `from_ns`.
    pub(super) fn meet(&mut self, pid: u32, from_ns: u64) {
        self.unknown_pids.push_back((pid, from_ns));
    }

    /// The next of the processes that no record has told of.
    pub(super) fn next_unknown(&mut self) -> Option<(u32, u64)> {
        self.unknown_pids.pop_front()
    }

    /// Whether nothing is left to be read.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.wanted.is_empty() && self.sweep.is_empty() && self.unknown_pids.is_empty()
    }

    /// The next process of a sweep.
    pub(super) fn next_of_sweep(&mut self) -> Option<u32> {
        self.sweep.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_process_is_read_again_once_in_a_while_and_at_once_after_exec() {
        let mut rereads = Rereads::default();
        rereads.want(7);
        rereads.want(7);
        assert_eq!(rereads.take_due(0), [7]);
        rereads.want(7);
        assert_eq!(rereads.take_due(49 * MS), [0; 0]);
        assert_eq!(rereads.take_due(50 * MS), [7]);
        rereads.want_at_once(7);
        assert_eq!(rereads.take_due(51 * MS), [7]);
        rereads.want(7);
        rereads.forget(7);
        assert_eq!(rereads.take_due(900 * MS), [0; 0]);
    }

    #[test]
    fn a_loss_is_followed_by_two_comparisons_however_many_losses_there_are() {
        let mut rereads = Rereads::default();
        assert!(!rereads.is_comparison_due(false, 0));
        assert!(rereads.is_comparison_due(true, 0));
        assert!(!rereads.is_comparison_due(true, 100 * MS), "too early");
        assert!(rereads.is_comparison_due(false, 200 * MS));
        assert!(rereads.is_comparison_due(false, 400 * MS), "of the second loss");
        assert!(!rereads.is_comparison_due(false, 900 * MS));
        rereads.meet(5, 77);
        assert_eq!((rereads.next_unknown(), rereads.next_unknown()), (Some((5, 77)), None));
    }

    #[test]
    fn losses_without_end_cost_one_sweep_in_a_while() {
        let mut rereads = Rereads::default();
        rereads.begin_sweep(0, || panic!("nothing was lost"));
        rereads.want_all();
        rereads.begin_sweep(0, || vec![1, 2]);
        assert_eq!(rereads.next_of_sweep(), Some(1));
        rereads.want_all();
        rereads.begin_sweep(600 * MS, || panic!("one is under way"));
        assert_eq!(rereads.next_of_sweep(), Some(2));
        assert_eq!(rereads.next_of_sweep(), None);
        rereads.begin_sweep(499 * MS, || panic!("too early"));
        rereads.begin_sweep(500 * MS, || vec![3]);
        assert_eq!(rereads.next_of_sweep(), Some(3));
        rereads.begin_sweep(2_000 * MS, || panic!("nothing was lost since"));
    }
}
