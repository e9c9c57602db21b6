//! The report of a finished capture.

use std::time::{Duration, SystemTime};

use metrics::MetricsSnapshot;
use profile::Profile;
use report::Intervals;

use crate::finished::{CommandStatus, Ended, Warning};
use crate::{Advice, Hottest, Ledger, Mode, OutputReport, Recording};

/// The report of a finished capture.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// When sampling began.
    pub start: SystemTime,
    /// How long sampling went on.
    pub duration: Duration,
    /// All requested outputs.
    pub outputs: Vec<OutputReport>,
    /// The ledgers of all intervals together: samples recorded and lost. One for each profile, the on-CPU profile first; without a profile, one for the
    /// scheduler statistics. The ledgers of several intervals have no parts of processes.
    pub ledgers: Vec<Ledger>,
    /// Problems that did not stop the capture.
    pub warnings: Vec<Warning>,
    /// Why it ended.
    pub ended_by: Ended,
    /// The state of the command, if there is one.
    pub command_status: Option<CommandStatus>,
    /// Scheduler statistics and counters, if they were taken.
    pub pmu: Option<MetricsSnapshot>,
    /// Number of intervals with written outputs, with [`AgentBuilder::rotate`](crate::Builder::rotate).
    pub intervals: u64,
    pub(crate) recording: Recording,
    /// The sums of all intervals, with [`AgentBuilder::rotate`](crate::Builder::rotate).
    pub(crate) sums: Option<Intervals>,
    /// The last interval that was cut.
    pub(crate) whole: Option<Recording>,
}

impl Report {
    /// The recording of the capture, or of its last interval if it was cut.
    #[must_use]
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// What is poor about the result, and what exactly to do about that: at most three pieces of advice, the most important first. With
    /// [`AgentBuilder::rotate`](crate::Builder::rotate) about the last interval that was cut: the rest may be too short to judge.
    #[must_use]
    pub fn advice(&self) -> Vec<Advice> {
        self.whole.as_ref().unwrap_or(&self.recording).advice()
    }

    /// As [`hottest`](crate::hottest()), of the profile of a mode in the whole capture, all intervals together. `None` if the capture has no such profile.
    #[must_use]
    pub fn hottest(&self, mode: Mode, limit: usize) -> Option<Hottest> {
        match &self.sums {
            Some(sums) => sums.hottest(mode, limit),
            None => self.recording.profile(mode).map(|profile| report::hottest(&profile, limit)),
        }
    }

    /// The on-CPU profile as a value, if one was taken.
    #[must_use]
    pub fn cpu_profile(&self) -> Option<Profile> {
        self.recording.profile(Mode::OnCpu).or_else(|| self.recording.profile(Mode::Event))
    }

    /// The off-CPU profile as a value, if one was taken.
    #[must_use]
    pub fn off_cpu_profile(&self) -> Option<Profile> {
        self.recording.profile(Mode::OffCpu)
    }

    /// The wall-clock profile as a value, if one was written.
    #[must_use]
    pub fn wall_profile(&self) -> Option<Profile> {
        self.recording.profile(Mode::Wall)
    }

    /// The ledger of one profile, if it was taken.
    #[must_use]
    pub fn ledger(&self, mode: Mode) -> Option<&Ledger> {
        self.ledgers.iter().find(|ledger| ledger.mode == mode)
    }
}
