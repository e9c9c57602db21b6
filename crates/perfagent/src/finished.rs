//! The report of a finished capture.

use std::process::ExitStatus;
use std::time::{Duration, SystemTime};

use metrics::MetricsSnapshot;
use profile::Profile;

use crate::{Ledger, Mode, OutputReport, Recording};

/// Why a wait or a capture ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// The time of the wait, or the configured duration, was over.
    Duration,
    /// The capture was stopped.
    Stopped,
    /// All targets have ended.
    TargetsExited,
    /// The start was cancelled.
    Cancelled,
}

/// The state of the command at the end of the capture.
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
    /// Unwind tables could not be compiled or cached, or did not fit into kernel memory.
    Tables,
    /// How a PID given as target was understood.
    Target,
    /// Counters, exporters or the metrics endpoint.
    Metrics,
    /// A label enricher.
    Labels,
    /// A part of the capture failed; the others went on.
    Capture,
}

/// A problem that did not stop the capture, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// What it is about.
    pub kind: WarningKind,
    /// What happened.
    pub message: String,
    /// What to do, if anything.
    pub hint: Option<String>,
}

impl Warning {
    pub(crate) fn new(kind: WarningKind, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: Some(hint.into()) }
    }

    /// A warning without a hint.
    pub(crate) fn bare(kind: WarningKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }
}

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
    /// The ledgers: what was recorded and what was lost. One for each profile, the on-CPU profile first; without a profile,
    /// one for the scheduler statistics.
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
}

impl Report {
    /// The recording of the capture, or of its last interval if it was cut.
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
