//! The states of a thread that is not on a CPU, as outputs show them.

use serde::{Deserialize, Serialize};

/// What a thread does while it is not on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OffCpuState {
    /// It sleeps, in any way that is not `IoWait`.
    Blocked,
    /// It is in uninterruptible sleep that adds to the load, as for a disk.
    IoWait,
    /// It could run, but was preempted or has yielded: it waits for a CPU.
    Preempted,
}

impl OffCpuState {
    /// All states with their names.
    pub const NAMES: [(&'static str, Self); 3] =
        [("blocked", Self::Blocked), ("iowait", Self::IoWait), ("preempted", Self::Preempted)];

    /// The name on the command line and in the label `state`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::IoWait => "iowait",
            Self::Preempted => "preempted",
        }
    }
}
