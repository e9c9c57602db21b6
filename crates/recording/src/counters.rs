//! What the programs in the kernel counted in an interval.

use serde::{Deserialize, Serialize};

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
    /// Walks of user stacks by number of [`WalkEnd`].
    pub walks: [u64; WalkEnd::ALL.len()],
}

impl Counters {
    /// User stack walks with this end.
    #[must_use]
    pub fn walks(&self, end: WalkEnd) -> u64 {
        self.walks[end as usize]
    }
}
