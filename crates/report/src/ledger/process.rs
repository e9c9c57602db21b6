//! The part of a ledger that is known for each process. Losses belong to no process.

use recording::{State, WalkEnd};

use super::walks::{self, Walks};
use crate::figures::add;

/// What a profile contains of one process. Processes that had the same number one after the other count as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessLedger {
    /// Samples recorded; off-CPU: intervals.
    pub samples: u64,
    /// Off-CPU: the time recorded.
    pub off_cpu_ns: u64,
    /// User stack walks by end, in the order of [`Ledger::walk_names`](crate::Ledger::walk_names).
    pub walks: Walks,
    /// Off-CPU: the time of these walks.
    pub walk_ns: Walks,
    /// Samples without a walk.
    pub no_user_stack: u64,
}

impl ProcessLedger {
    /// Walks that reached the outermost frame, in percent of all; off-CPU, their time. `None` if there was no walk.
    #[must_use]
    pub fn rooted_pct(&self) -> Option<f64> {
        walks::rooted_pct(walks::weighted(&self.walks, &self.walk_ns))
    }

    /// Adds samples with one stack. `end`: `None` if the stack is not known.
    pub(super) fn add(&mut self, state: State, end: Option<WalkEnd>, samples: u64, time_ns: u64) {
        add(&mut self.samples, samples);
        if state != State::Sampled {
            add(&mut self.off_cpu_ns, time_ns);
        }
        match end {
            Some(end) => {
                walks::add_end(&mut self.walks, &mut self.no_user_stack, end, samples);
                if state != State::Sampled {
                    walks::add_end(&mut self.walk_ns, &mut 0, end, time_ns);
                }
            }
            None => add(&mut self.no_user_stack, samples),
        }
    }
}
