//! What was seen, lost and skipped in an interval, and what it cost. A ledger is computed from this and from the counts; see the
//! crate `report`.

use serde::{Deserialize, Serialize};

use crate::counters::Counters;
use crate::state::State;
use crate::walk_end::WalkEnd;

/// What the agent used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// CPU time of the agent.
    pub agent_cpu_ns: u64,
    /// The time in which it was used.
    pub agent_elapsed_ns: u64,
    /// Largest resident set of the agent.
    pub agent_rss_peak_kib: u64,
    /// Time in BPF programs, where the kernel counts it.
    pub bpf_cpu_ns: Option<u64>,
    /// Kernel memory of BPF maps.
    pub bpf_memory_kib: u64,
}

/// What was seen, lost and skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accounting {
    /// What the sampler's program counted.
    pub sampler: Counters,
    /// What the scheduler's programs counted.
    pub scheduler: Counters,
    /// Ends of the walks made in user space: of samples, and of off-CPU intervals; by number of [`WalkEnd`].
    pub deferred_walks: [[u64; WalkEnd::ALL.len()]; 2],
    /// Time in which the kernel throttled the sampling events, as far as it tells.
    pub throttled_ns: u64,
    /// Counts that exceeded a limit of the recording, by number of [`State`].
    pub not_kept: [u64; State::ALL.len()],
    /// Of the counts that were kept, those whose waker exceeded a limit.
    pub wakers_not_kept: u64,
    /// Targets. Of the whole system: all processes that there were, kernel threads too.
    pub processes: u64,
    /// Processes of which mappings, or files with code, could not be read.
    pub unreadable_processes: u64,
    /// Names that processes had for too short a time to be shown.
    pub renames_skipped: u64,
    /// Records of process life that were lost, in the BPF ring.
    pub life_lost: u64,
    /// Records of mappings that were lost, in the side-band rings.
    pub side_band_lost: u64,
    /// Files whose unwind table could not be made or did not fit into the kernel's memory.
    pub tables_failed: u64,
    /// Length of the interval.
    pub elapsed_ns: u64,
    /// The capture was cancelled before it began: there is little to tell.
    pub never_began: bool,
    /// What it cost.
    pub cost: Cost,
}
