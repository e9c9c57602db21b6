//! What a second of a capture brought.

use profile::Profile;

use crate::figures::Figures;

/// Which time is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Time on CPUs.
    #[default]
    OnCpu,
    /// Time of waits.
    OffCpu,
}

impl Mode {
    /// Its name on the screen.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OnCpu => "on-CPU",
            Self::OffCpu => "off-CPU",
        }
    }

    pub(crate) fn other(self) -> Self {
        match self {
            Self::OnCpu => Self::OffCpu,
            Self::OffCpu => Self::OnCpu,
        }
    }
}

/// The profile of one mode, whose samples have a count and a time.
#[derive(Clone, Debug)]
pub struct Part {
    /// Which time.
    pub mode: Mode,
    /// The stacks.
    pub profile: Profile,
    /// What the ledger says about them.
    pub figures: Figures,
}

/// An interval of a capture.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// One for each mode that is captured.
    pub parts: Vec<Part>,
}
