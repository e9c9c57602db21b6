//! The result of a capture, also of one that never began.

use std::time::{Duration, SystemTime};

use metrics::{HardwareCounters, Incomplete, MetricsSnapshot, Span};
use recording::{Accounting, Cost, Names, Recording, Settings, SymbolizedRecording, TrampolineCounts};
use report::{EndedBy, Finding, FindingKind};

use super::{convert, origin, perf_data, settings};
use crate::finished::{CommandStatus, Ended, Warning, WarningKind};
use crate::sources::sched_stats;
use crate::timeline::Written;
use crate::usage::Usage;
use crate::{Config, Ledger, Targets, privilege};

/// The result of a capture.
pub(crate) struct CaptureResult {
    pub(crate) start: SystemTime,
    pub(crate) duration: Duration,
    /// The last interval: the whole capture, unless it was cut.
    pub(crate) recording: SymbolizedRecording,
    pub(crate) ledgers: Vec<Ledger>,
    pub(crate) metrics: Option<MetricsSnapshot>,
    pub(crate) warnings: Vec<Warning>,
    /// The perf.data file.
    pub(crate) perf_data: Option<Written>,
    pub(crate) ended_by: Ended,
    pub(crate) command_status: Option<CommandStatus>,
}

/// A capture whose names have been found.
pub(super) struct Finished {
    pub(super) start: SystemTime,
    pub(super) duration: Duration,
    pub(super) recording: Recording,
    pub(super) names: Names,
    pub(super) usage: Usage,
    /// What earlier intervals cost.
    pub(super) cost_before: Cost,
    pub(super) metrics: Option<MetricsSnapshot>,
    pub(super) warnings: Vec<Warning>,
    /// The perf.data file.
    pub(super) perf_data: Option<Written>,
    pub(super) ended_by: Ended,
    pub(super) command_status: Option<CommandStatus>,
}

impl CaptureResult {
    /// Makes the ledgers and the warnings.
    pub(super) fn of(finished: Finished) -> Self {
        let Finished { start, duration, mut recording, names, usage, metrics, mut warnings, .. } = finished;
        // The names cost something too.
        let Cost { bpf_cpu_ns, bpf_memory_kib, .. } = recording.accounting.cost;
        let agent = usage.cost().since(&finished.cost_before);
        recording.accounting.cost = Cost { bpf_cpu_ns, bpf_memory_kib, ..agent };
        let (symbolized, ledgers) = report_on(recording, names, finished.ended_by, &mut warnings);
        Self {
            start,
            duration,
            recording: symbolized,
            ledgers,
            metrics,
            warnings,
            perf_data: finished.perf_data,
            ended_by: finished.ended_by,
            command_status: finished.command_status,
        }
    }

    /// The result of a capture that was cancelled before it began.
    pub(crate) fn empty(
        config: &Config,
        start: SystemTime,
        usage: Usage,
        trampolines: Option<TrampolineCounts>,
    ) -> Self {
        let settings: Settings = settings::for_recording(config);
        let recording = Recording {
            settings,
            span: recording::Span { start_ns: convert::since_epoch_ns(start), duration_ns: 0 },
            origin: origin::origin(
                config,
                if let Targets::Pids(pids) = &config.targets { pids } else { &[] },
            ),
            events: settings::events(config),
            accounting: Accounting {
                never_began: true,
                trampolines,
                cost: usage.cost(),
                ..Accounting::default()
            },
            ..Recording::default()
        };
        let (duration, ended_by) = (Duration::ZERO, Ended::Cancelled);
        let (symbolized, ledgers) = report_on(recording, Names::default(), ended_by, &mut Vec::new());
        let warnings = vec![Warning::new(
            WarningKind::NoSamples,
            "no samples: stopped before sampling began",
            "let it run for longer",
        )];
        let metrics = config.pmu.then(|| {
            let pids = if let Targets::Pids(pids) = &config.targets { pids.as_slice() } else { &[] };
            let scope = sched_stats::scope(config, pids);
            let span = Span { start, duration };
            MetricsSnapshot::new(scope, span, [], HardwareCounters::default(), Incomplete::default())
        });
        Self {
            start,
            duration,
            recording: symbolized,
            ledgers,
            metrics,
            warnings,
            perf_data: perf_data::empty(config, start),
            ended_by,
            command_status: None,
        }
    }
}

/// The recording with its names and ledgers, and these ledgers. Adds its findings to `warnings`.
fn report_on(
    recording: Recording,
    names: Names,
    ended_by: Ended,
    warnings: &mut Vec<Warning>,
) -> (SymbolizedRecording, Vec<Ledger>) {
    let (symbolized, report) = report::complete(recording, names, self::ended_by(ended_by));
    // Advice tells what was lost, if it matters.
    let told = report.warnings.into_iter().filter(|finding| finding.kind != FindingKind::Lost);
    warnings.extend(told.map(warning));
    (symbolized, report.ledgers)
}

/// The end of a capture as a report on it distinguishes it.
pub(crate) fn ended_by(ended: Ended) -> EndedBy {
    if ended == Ended::TargetsExited { EndedBy::TargetsExited } else { EndedBy::Request }
}

/// A finding as the library tells it.
pub(crate) fn warning(finding: Finding) -> Warning {
    let kind = match finding.kind {
        FindingKind::NoSamples => WarningKind::NoSamples,
        FindingKind::Lost | FindingKind::NotRun | FindingKind::Values => WarningKind::Lost,
        _ => WarningKind::Names,
    };
    let hint = match finding.kind {
        FindingKind::KernelNamesHidden => {
            Some(privilege::kernel_addresses_fix(privilege::kptr_restrict()).to_owned())
        }
        _ => finding.hint,
    };
    Warning { kind, message: finding.message, hint }
}
