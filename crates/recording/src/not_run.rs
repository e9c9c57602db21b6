//! Periods of a sampled event without a run of its program.

use serde::{Deserialize, Serialize};

/// Periods in which the kernel did not run the program of the clock, as while a thread changes BPF maps: an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotRun {
    /// Their number, on all CPUs.
    pub periods: u64,
    /// The CPU with the largest share of such periods in the whole capture, and that share in thousandths; none if no CPU has any.
    pub worst: Option<(u32, u32)>,
}
