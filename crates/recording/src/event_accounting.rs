//! What was seen and lost of an event that was sampled beside the first one.

use serde::{Deserialize, Serialize};

use crate::counters::Counters;
use crate::not_run::NotRun;
use crate::walk_end::WalkEnd;

/// What was seen and lost of one further event. Each is as the figure of [`Accounting`](crate::Accounting) with that name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventAccounting {
    /// What its program counted.
    pub sampler: Counters,
    /// Ends of the walks of its samples that were made in user space, by number of [`WalkEnd`].
    pub deferred_walks: [u64; WalkEnd::ALL.len()],
    /// Time in which the kernel throttled it.
    pub throttled_ns: u64,
    /// Periods in which the kernel ran no program.
    pub not_run: NotRun,
    /// Samples that exceeded a limit of the recording.
    pub not_kept: u64,
    /// Samples whose stack never came.
    pub without_stack: u64,
}

impl EventAccounting {
    /// What was counted after `before`, an earlier reading of the same capture.
    #[must_use]
    pub(crate) fn since(&self, before: &Self) -> Self {
        let mut after = self.clone();
        after.sampler = self.sampler.since(&before.sampler);
        let walks = after.deferred_walks.iter_mut().zip(before.deferred_walks);
        let figures = [
            (&mut after.throttled_ns, before.throttled_ns),
            (&mut after.not_run.periods, before.not_run.periods),
            (&mut after.not_kept, before.not_kept),
            (&mut after.without_stack, before.without_stack),
        ];
        for (after, before) in walks.chain(figures) {
            *after = after.saturating_sub(before);
        }
        after
    }
}
