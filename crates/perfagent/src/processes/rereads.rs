//! Decides which processes are read again from /proc, and when: single processes on request, and all of them after records were
//! lost. Reading takes the time of the capture thread, and the more of it the more a process maps. So one process gets at most a hundredth of
//! a core, and all together a fiftieth; one that costs little is not held up by those that cost much.

use std::collections::{HashMap, HashSet, VecDeque};

/// A process that keeps running code outside of its known mappings is read again at most this often.
const EACH_NS: u64 = 50_000_000;
/// After a read or a change of its mappings, a process pauses for so many times as long as that took.
const PAUSE: u64 = 99;
/// Of all time, one part in so many is for reading processes because their code lies in no known mapping.
const ALL_PART: u64 = 50;
/// So much may be used at once.
const BURST_NS: u64 = 100_000_000;
/// A process that is read in less time is not held up by those that take more.
const CHEAP_NS: u64 = 1_000_000;
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
    paces: HashMap<u32, Pace>,
    /// Time used for such reads that the part for them has not made up for yet, and when it was computed.
    debt_ns: u64,
    debt_at_ns: u64,
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

/// How fast the mappings of a process are followed.
#[derive(Clone, Copy, Default)]
struct Pace {
    /// When it was last read because it was wanted.
    read_ns: Option<u64>,
    /// When it may be read again.
    read_due_ns: u64,
    /// When changes of its mappings may be carried over again.
    change_due_ns: u64,
    /// What the last read took.
    cost_ns: u64,
}

impl Rereads {
    /// The mappings of a process are unknown or out of date.
    pub(super) fn want(&mut self, pid: u32) {
        self.wanted.insert(pid);
    }

    /// The process has another program: nothing is known of its mappings.
    pub(super) fn want_at_once(&mut self, pid: u32) {
        self.wanted.insert(pid);
        self.paces.remove(&pid);
    }

    /// The mappings of every process may be out of date.
    pub(super) fn want_all(&mut self) {
        self.sweep_wanted = true;
    }

    /// The process has ended.
    pub(super) fn forget(&mut self, pid: u32) {
        self.wanted.remove(&pid);
        self.paces.remove(&pid);
    }

    /// The processes that were asked for and whose time has come, those that cost least first.
    pub(super) fn due(&mut self, now_ns: u64) -> Vec<u32> {
        self.make_up(now_ns);
        let due_ns = |pid: &u32| self.paces.get(pid).map_or(0, |pace| pace.read_due_ns);
        let due = self.wanted.iter().filter(|pid| due_ns(pid) <= now_ns);
        let mut due: Vec<(u64, u32)> = due.map(|pid| (self.cost_ns(*pid), *pid)).collect();
        due.sort_unstable();
        due.into_iter().map(|(_, pid)| pid).collect()
    }

    /// Whether one of these may be read now. Tell then how long it took: [`Self::read`].
    pub(super) fn take(&mut self, pid: u32) -> bool {
        let most = if self.cost_ns(pid) < CHEAP_NS { 2 * BURST_NS } else { BURST_NS };
        self.debt_ns < most && self.wanted.remove(&pid)
    }

    /// What reading a process is likely to take.
    fn cost_ns(&self, pid: u32) -> u64 {
        let read = self.paces.get(&pid).filter(|pace| pace.read_ns.is_some());
        read.map_or(CHEAP_NS, |pace| pace.cost_ns)
    }

    /// A process was read because it was wanted.
    pub(super) fn read(&mut self, pid: u32, begun_ns: u64, ended_ns: u64) {
        let cost_ns = ended_ns.saturating_sub(begun_ns);
        self.debt_ns += cost_ns;
        let pace = self.paces.entry(pid).or_default();
        (pace.read_ns, pace.cost_ns) = (Some(begun_ns), cost_ns);
        pace.read_due_ns = begun_ns.saturating_add(EACH_NS.max(cost_ns.saturating_mul(PAUSE)));
    }

    /// To carry over the mappings of a process has taken so long.
    pub(super) fn charge(&mut self, pid: u32, now_ns: u64, cost_ns: u64) {
        let pace = self.paces.entry(pid).or_default();
        pace.change_due_ns = now_ns.saturating_add(cost_ns.saturating_mul(PAUSE));
        pace.read_due_ns = pace.read_due_ns.max(pace.change_due_ns);
    }

    /// Whether a change of the mappings of a process may be carried over now.
    pub(super) fn may_change(&self, pid: u32, now_ns: u64) -> bool {
        self.paces.get(&pid).is_none_or(|pace| pace.change_due_ns <= now_ns)
    }

    /// The next change of a process is carried over at once.
    pub(super) fn change_at_once(&mut self, pid: u32) {
        if let Some(pace) = self.paces.get_mut(&pid) {
            pace.change_due_ns = 0;
        }
    }

    /// When the last read of a process that was wanted began.
    pub(super) fn last_read(&self, pid: u32) -> Option<u64> {
        self.paces.get(&pid)?.read_ns
    }

    /// Time makes up for the reads.
    fn make_up(&mut self, now_ns: u64) {
        let passed = now_ns.saturating_sub(self.debt_at_ns);
        self.debt_ns = self.debt_ns.saturating_sub(passed / ALL_PART);
        self.debt_at_ns = now_ns;
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

    impl Rereads {
        /// Reads what is due; each read takes no time.
        fn take_due(&mut self, now_ns: u64) -> Vec<u32> {
            let mut due = self.due(now_ns);
            due.retain(|pid| self.take(*pid));
            due.iter().for_each(|pid| self.read(*pid, now_ns, now_ns));
            due
        }
    }

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
    fn a_process_that_costs_much_is_read_seldom() {
        let mut rereads = Rereads::default();
        rereads.want(7);
        assert_eq!(rereads.take_due(0), [7]);
        rereads.read(7, 0, 20 * MS);
        assert_eq!(rereads.last_read(7), Some(0));
        rereads.want(7);
        assert_eq!(rereads.take_due(1979 * MS), [0; 0]);
        assert_eq!(rereads.take_due(1980 * MS), [7]);
        rereads.charge(7, 2000 * MS, 10 * MS);
        assert!(!rereads.may_change(7, 2989 * MS) && rereads.may_change(7, 2990 * MS));
        rereads.want(7);
        assert_eq!(rereads.take_due(2900 * MS), [0; 0]);
        rereads.charge(7, 3000 * MS, 10 * MS);
        rereads.change_at_once(7);
        assert!(rereads.may_change(7, 3000 * MS));
    }

    #[test]
    fn many_that_cost_much_get_a_fiftieth_of_a_core_and_hold_up_no_other() {
        let mut rereads = Rereads::default();
        let (mut used, mut quick) = (0, 0);
        for now in (0..60_000).step_by(10) {
            (1..200).for_each(|pid| rereads.want(pid));
            for pid in rereads.due(now * MS) {
                let cost = if pid == 1 { MS / 10 } else { 30 * MS };
                if rereads.take(pid) {
                    rereads.read(pid, now * MS, now * MS + cost);
                    (used, quick) = (used + cost, quick + u32::from(pid == 1));
                }
            }
        }
        let most = 2 * BURST_NS + 60_000 * MS / ALL_PART + 30 * MS;
        assert!(used <= most, "{} of {} ms", used / MS, most / MS);
        assert!(quick > 100, "{quick}");
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
