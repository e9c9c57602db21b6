//! What a finished capture gives.

use std::process::ExitStatus;
use std::time::{Duration, SystemTime};

use metrics::MetricsSnapshot;
use profile::Profile;

use crate::{Ledger, Mode, OutputReport, Recording};

/// Why a wait or a capture ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// The time was over: that of the wait, or that the configuration names.
    Duration,
    /// It was stopped.
    Stopped,
    /// All targets have ended.
    TargetsExited,
    /// The start was cancelled.
    Cancelled,
}

/// What became of the command that was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandStatus {
    /// It ended.
    Exited(ExitStatus),
    /// It still runs, with this PID.
    Running(u32),
}

/// What a [`Warning`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WarningKind {
    /// A profile has no samples.
    NoSamples,
    /// Samples were lost.
    Lost,
    /// Processes or files of the targets could not be read.
    Unreadable,
    /// Code stays without names.
    Names,
    /// Unwind tables could not be made, kept on disk, or found no room.
    Tables,
    /// What a number given as target stands for.
    Target,
    /// Counters, exporters, the metrics endpoint.
    Metrics,
    /// A label enricher.
    Labels,
    /// A part of the capture failed; the others went on.
    Capture,
}

/// Something that went less well than it might, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// What it is about.
    pub kind: WarningKind,
    /// What happened.
    pub message: String,
    /// What to do, where there is something.
    pub hint: Option<String>,
}

impl Warning {
    pub(crate) fn new(kind: WarningKind, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: Some(hint.into()) }
    }

    /// Without anything that could be done.
    pub(crate) fn bare(kind: WarningKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }
}

/// What a finished capture gives.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// When sampling began.
    pub start: SystemTime,
    /// How long it went on.
    pub duration: Duration,
    /// Every output that was asked for.
    pub outputs: Vec<OutputReport>,
    /// What was recorded and what was lost, for each profile that was taken, the on-CPU profile first; without a profile, for the
    /// scheduler statistics.
    pub ledgers: Vec<Ledger>,
    /// What went less well.
    pub warnings: Vec<Warning>,
    /// Why it ended.
    pub ended_by: Ended,
    /// What became of the command, if one was run.
    pub command_status: Option<CommandStatus>,
    /// Scheduler statistics and counters, if they were taken.
    pub pmu: Option<MetricsSnapshot>,
    /// Intervals whose outputs were written, with [`AgentBuilder::rotate`](crate::AgentBuilder::rotate).
    pub intervals: u64,
    pub(crate) recording: Recording,
}

impl Report {
    /// The capture as data; of a capture that was cut, its last interval.
    #[must_use]
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The on-CPU profile as a value, if one was taken.
    #[must_use]
    pub fn cpu_profile(&self) -> Option<Profile> {
        self.recording.profile(Mode::OnCpu)
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
