//! Which profile of a capture.

use serde::{Deserialize, Serialize};

/// Which profile a ledger or an output is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Mode {
    /// Where threads use CPUs.
    #[default]
    OnCpu,
    /// Where threads wait.
    OffCpu,
    /// Both in one profile.
    Wall,
    /// Where an event happens that was sampled instead of time on CPUs.
    Event,
    /// Where memory is allocated, and what of it is in use.
    Heap,
    /// No profile: scheduler statistics and counters alone.
    Pmu,
    /// Which locks threads wait for.
    Locks,
}

impl Mode {
    /// The name in the ledger.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OnCpu => "on-cpu",
            Self::OffCpu => "off-cpu",
            Self::Wall => "wall",
            Self::Event => "event",
            Self::Heap => "heap",
            Self::Pmu => "pmu",
            Self::Locks => "locks",
        }
    }

    /// Whether what is recorded has stacks.
    #[must_use]
    pub fn has_stacks(self) -> bool {
        self != Self::Pmu
    }
}
