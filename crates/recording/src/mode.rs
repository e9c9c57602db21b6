//! Which profile of a capture.

use serde::{Deserialize, Serialize};

use crate::event::EventId;

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
    /// As [`Self::Event`], of a further event, by its number among the sampled ones: from 1 on. See
    /// [`EventId::sampled`](crate::EventId::sampled).
    FurtherEvent(u8),
}

impl Mode {
    /// The name in the ledger.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OnCpu => "on-cpu",
            Self::OffCpu => "off-cpu",
            Self::Wall => "wall",
            Self::Event | Self::FurtherEvent(_) => "event",
            Self::Heap => "heap",
            Self::Pmu => "pmu",
            Self::Locks => "locks",
        }
    }

    /// The event whose samples it shows, if it shows those of one event.
    #[must_use]
    pub fn sampled_event(self) -> Option<EventId> {
        match self {
            Self::OnCpu | Self::Event | Self::Heap => Some(EventId::sampled(0)),
            Self::FurtherEvent(number) => Some(EventId::sampled(number.into())),
            Self::OffCpu | Self::Wall | Self::Pmu | Self::Locks => None,
        }
    }

    /// Whether what is recorded has stacks.
    #[must_use]
    pub fn has_stacks(self) -> bool {
        self != Self::Pmu
    }
}
