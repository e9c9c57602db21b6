//! What the programs in the kernel counted in an interval.

use serde::{Deserialize, Serialize};

use crate::python_walks::PythonWalks;
use crate::walk_end::WalkEnd;

/// What the programs of one source counted: of the sampler, or of the scheduler's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Samples (off-CPU: intervals) that are in a sum.
    pub samples: u64,
    /// Samples lost: an unseen stack did not fit into the ring.
    pub lost_ring_full: u64,
    /// Samples lost: no room for another distinct stack.
    pub lost_map_full: u64,
    /// Samples lost: no memory for the state of a CPU or process.
    pub lost_no_memory: u64,
    /// Samples lost: the program interrupted one that was changing the same table.
    pub lost_busy: u64,
    /// Off-CPU intervals lost: the kernel did not report their begin.
    pub lost_unseen: u64,
    /// Samples of processes that do not exist in the agent's PID namespace.
    pub outside_namespace: u64,
    /// Walks whose outer part came from the memo.
    pub memo_hits: u64,
    /// Memo hits that were walked again in full.
    pub memo_checked: u64,
    /// Of these, those that gave another stack.
    pub memo_differed: u64,
    /// User frames of all walks.
    pub frames: u64,
    /// Of these, frames whose rule was looked up rather than taken from the memo.
    pub frames_walked: u64,
    /// Stacks that were sent to user space.
    pub stacks_sent: u64,
    /// Samples whose stack was sent unwalked; they are in no other figure.
    pub deferred: u64,
    /// Requests for mappings that did not fit into the ring.
    pub requests_lost: u64,
    /// Processes that could not be followed.
    pub processes_lost: u64,
    /// Threads that could not be followed.
    pub threads_lost: u64,
    /// Off-CPU intervals shorter than asked for.
    pub skipped_min_block: u64,
    /// The time of these intervals.
    pub skipped_min_block_ns: u64,
    /// Off-CPU intervals recorded without their waker.
    pub wakers_lost: u64,
    /// Time that threads existed inside the interval.
    pub lifetime_ns: u64,
    /// Walks by frame pointer whose innermost frame may not be set up: its caller may be missing. Also walks at a return whose address
    /// cannot be read: the function that returns is their innermost frame.
    pub leaves_undecided: u64,
    /// Threads whose time up to the end of the interval is missing for lack of room.
    pub seams_lost: u64,
    /// Waits for locks that were recorded.
    pub lock_waits: u64,
    /// Waits for locks that were not recorded for lack of room.
    pub locks_lost: u64,
    /// Owners of locks, of waits or of threads, for which there was no room.
    pub owners_lost: u64,
    /// Waits for locks whose length is missing in the distribution.
    pub lengths_lost: u64,
    /// Stacks that user space could have walked and that were not sent to it, because their process had sent its share.
    /// In files this and the next two have a section of their own.
    #[serde(skip)]
    pub unsent_of_process: u64,
    /// The same, because all processes together had.
    #[serde(skip)]
    pub unsent_of_machine: u64,
    /// The same, because they did not fit into the ring.
    #[serde(skip)]
    pub unsent_ring_full: u64,
    /// Samples of an event that has a value whose value could not be read. Files have this and the next one in their ledgers only.
    #[serde(skip)]
    pub values_unreadable: u64,
    /// The same: the value was negative, or too large for a sum.
    #[serde(skip)]
    pub values_negative: u64,
    /// Walks of Python frames, by number of [`PythonCounter`](crate::PythonCounter). Files have them in their ledgers only.
    #[serde(skip)]
    pub python: PythonWalks,
    /// Walks of user stacks by number of [`WalkEnd`].
    pub walks: [u64; WalkEnd::ALL.len()],
}

impl Counters {
    /// Stacks that were not sent to user space: because of their process, because of all processes, because of the ring.
    pub(crate) fn unsent(&self) -> [u64; 3] {
        [self.unsent_of_process, self.unsent_of_machine, self.unsent_ring_full]
    }

    pub(crate) fn set_unsent(&mut self, unsent: [u64; 3]) {
        [self.unsent_of_process, self.unsent_of_machine, self.unsent_ring_full] = unsent;
    }

    /// User stack walks with this end.
    #[must_use]
    pub fn walks(&self, end: WalkEnd) -> u64 {
        self.walks[end as usize]
    }

    /// What was counted after `before`, an earlier reading of the same programs.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    /// What was counted here and there.
    #[must_use]
    pub fn plus(&self, more: &Self) -> Self {
        self.with(more, u64::saturating_add)
    }

    fn with(&self, other: &Self, join: fn(u64, u64) -> u64) -> Self {
        let mut walks = self.walks;
        walks.iter_mut().zip(other.walks).for_each(|(one, other)| *one = join(*one, other));
        let mut python = self.python;
        python.iter_mut().zip(other.python).for_each(|(one, other)| *one = join(*one, other));
        let joined = |of: fn(&Self) -> u64| join(of(self), of(other));
        Self {
            samples: joined(|c| c.samples),
            lost_ring_full: joined(|c| c.lost_ring_full),
            lost_map_full: joined(|c| c.lost_map_full),
            lost_no_memory: joined(|c| c.lost_no_memory),
            lost_busy: joined(|c| c.lost_busy),
            lost_unseen: joined(|c| c.lost_unseen),
            outside_namespace: joined(|c| c.outside_namespace),
            memo_hits: joined(|c| c.memo_hits),
            memo_checked: joined(|c| c.memo_checked),
            memo_differed: joined(|c| c.memo_differed),
            frames: joined(|c| c.frames),
            frames_walked: joined(|c| c.frames_walked),
            leaves_undecided: joined(|c| c.leaves_undecided),
            stacks_sent: joined(|c| c.stacks_sent),
            deferred: joined(|c| c.deferred),
            requests_lost: joined(|c| c.requests_lost),
            processes_lost: joined(|c| c.processes_lost),
            threads_lost: joined(|c| c.threads_lost),
            skipped_min_block: joined(|c| c.skipped_min_block),
            skipped_min_block_ns: joined(|c| c.skipped_min_block_ns),
            wakers_lost: joined(|c| c.wakers_lost),
            lifetime_ns: joined(|c| c.lifetime_ns),
            seams_lost: joined(|c| c.seams_lost),
            lock_waits: joined(|c| c.lock_waits),
            locks_lost: joined(|c| c.locks_lost),
            owners_lost: joined(|c| c.owners_lost),
            lengths_lost: joined(|c| c.lengths_lost),
            unsent_of_process: joined(|c| c.unsent_of_process),
            unsent_of_machine: joined(|c| c.unsent_of_machine),
            unsent_ring_full: joined(|c| c.unsent_ring_full),
            values_unreadable: joined(|c| c.values_unreadable),
            values_negative: joined(|c| c.values_negative),
            python,
            walks,
        }
    }
}
