//! The part of a ledger that can be told of each process. What was lost belongs to none.

use kernel::{State, Sums, WalkEnd};

use super::{Ledger, NO_WALKS, WALKS, percent};

/// What a profile contains of one process. Processes that had one number, one after the other, are one here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessLedger {
    /// Samples recorded; off-CPU: intervals.
    pub samples: u64,
    /// Off-CPU: the time recorded.
    pub off_cpu_ns: u64,
    /// User stack walks by end, in the order of [`Ledger::walk_names`].
    pub walks: [u64; 9],
    /// Samples without a walk.
    pub no_user_stack: u64,
}

impl ProcessLedger {
    /// Walks that reached the outermost frame, in percent of all; none if there was no walk.
    #[must_use]
    pub fn rooted_pct(&self) -> Option<f64> {
        percent(self.walks[0], self.walks.iter().sum())
    }
}

impl Ledger {
    /// What the profile contains of one process, once the capture is over; none if that is nothing.
    #[must_use]
    pub fn process(&self, pid: u32) -> Option<&ProcessLedger> {
        self.by_process.get(&pid)
    }

    /// All processes that the profile contains something of, by number, once the capture is over.
    pub fn each_process(&self) -> impl Iterator<Item = (u32, &ProcessLedger)> {
        self.by_process.iter().map(|(pid, ledger)| (*pid, ledger))
    }

    /// Takes in the sums of one stack of a process. `end`: none if there was no walk.
    pub(crate) fn add_process(&mut self, pid: u32, state: State, end: Option<WalkEnd>, sums: &Sums) {
        let ledger = self.by_process.entry(pid).or_default();
        ledger.samples += sums.count;
        if state != State::Sampled {
            ledger.off_cpu_ns += sums.value;
        }
        let walked = end.filter(|end| !NO_WALKS.contains(end));
        match walked.and_then(|end| WALKS.iter().position(|(_, known)| *known == end)) {
            Some(cause) => ledger.walks[cause] += sums.count,
            None => ledger.no_user_stack += sums.count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_its_own_part() {
        let mut sums = Sums::default();
        (sums.count, sums.value) = (3, 500);
        let mut ledger = Ledger::default();
        ledger.add_process(7, State::Blocked, Some(WalkEnd::Root), &sums);
        ledger.add_process(7, State::Blocked, Some(WalkEnd::Fault), &sums);
        ledger.add_process(7, State::Blocked, None, &sums);
        ledger.add_process(8, State::Sampled, Some(WalkEnd::NoUserStack), &sums);
        let seven = ledger.process(7).unwrap();
        assert_eq!((seven.samples, seven.off_cpu_ns, seven.no_user_stack), (9, 1500, 3));
        assert_eq!((seven.walks[0], seven.walks[5], seven.rooted_pct()), (3, 3, Some(50.0)));
        let eight = ledger.process(8).unwrap();
        assert_eq!((eight.samples, eight.off_cpu_ns, eight.no_user_stack), (3, 0, 3));
        assert_eq!(eight.rooted_pct(), None);
        assert_eq!(ledger.process(9), None);
        assert_eq!(ledger.each_process().map(|(pid, _)| pid).collect::<Vec<_>>(), [7, 8]);
    }
}
