//! How a capture ended, and what it says about problems.

use std::process::ExitStatus;

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

/// A target as the capture found it at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TargetProcess {
    /// Its number in the agent's PID namespace.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// The number of its descendants that lived then and are profiled with it.
    pub descendants: u64,
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
    /// Processes in which the trampoline of CPython was not switched on.
    Python,
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
