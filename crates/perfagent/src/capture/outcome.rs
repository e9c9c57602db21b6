//! What comes out of a capture, also of one that never began.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use events::EventSpec;
use metrics::{HardwareCounters, Incomplete, MetricsSnapshot, Span};

use super::stacks::Stacks;
use super::{assemble, figures, names, shown};
use crate::report::{CommandStatus, Ended, Profiles, Warning, WarningKind};
use crate::usage::Usage;
use crate::{Config, Ledger, Mode, Targets};

/// What comes out of a capture.
pub(crate) struct Outcome {
    pub(crate) start: SystemTime,
    pub(crate) duration: Duration,
    pub(crate) profiles: Profiles,
    pub(crate) ledgers: Vec<Ledger>,
    pub(crate) metrics: Option<MetricsSnapshot>,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) ended_by: Ended,
    pub(crate) command_status: Option<CommandStatus>,
}

impl Outcome {
    /// The outcome of a capture that never began.
    pub(crate) fn empty(config: &Config, start: SystemTime, usage: Usage) -> Self {
        let (names, stacks) = (names::Names::default(), Stacks::new(false, None));
        let material = assemble::Material {
            config,
            stacks: &stacks,
            names: &names,
            main: None,
            times: assemble::Times { start_ns: since_epoch_ns(start), duration_ns: 0 },
        };
        let mut ledgers = new_ledgers(config);
        shown::complete(config, &stacks, &mut ledgers, 0);
        for ledger in &mut ledgers {
            ledger.never_began = true;
            usage.tell(ledger);
        }
        let (profiles, ledgers) = profiles(&material, ledgers);
        let warnings = vec![Warning::new(
            WarningKind::NoSamples,
            "no samples: stopped before sampling began",
            "let it run for longer",
        )];
        let (duration, ended_by, command_status) = (Duration::ZERO, Ended::Cancelled, None);
        let metrics = config.pmu.then(|| {
            let pids = if let Targets::Pids(pids) = &config.targets { pids.as_slice() } else { &[] };
            let scope = figures::scope(config, pids);
            let span = Span { start, duration };
            MetricsSnapshot::new(scope, span, [], HardwareCounters::default(), Incomplete::default())
        });
        Self { start, duration, profiles, ledgers, metrics, warnings, ended_by, command_status }
    }
}

/// The ledgers of the profiles that are taken, the on-CPU one first, or else that of figures alone.
pub(super) fn new_ledgers(config: &Config) -> Vec<Ledger> {
    let unwind = config.unwind.name().to_owned();
    let mut ledgers = Vec::new();
    if config.cpu_profile {
        let event = EventSpec::cpu_clock(config.sample_rate_hz.into()).name();
        let rate_hz = config.sample_rate_hz;
        let cpus = config.cpus.clone();
        ledgers.push(Ledger { event, rate_hz, cpus, unwind: unwind.clone(), ..Ledger::default() });
    }
    if config.off_cpu_profile {
        let event = "sched:sched_switch".to_owned();
        ledgers.push(Ledger { mode: Mode::OffCpu, event, unwind, ..Ledger::default() });
    }
    if ledgers.is_empty() {
        let event = "sched:sched_switch".to_owned();
        ledgers.push(Ledger { mode: Mode::Pmu, event, ..Ledger::default() });
    }
    ledgers
}

/// The profiles of these ledgers.
pub(super) fn profiles(
    material: &assemble::Material<'_>,
    mut ledgers: Vec<Ledger>,
) -> (Profiles, Vec<Ledger>) {
    let mut profiles = Profiles::default();
    for ledger in &mut ledgers {
        match ledger.mode {
            Mode::OnCpu => profiles.cpu = Some(material.cpu_profile(ledger)),
            Mode::OffCpu => profiles.off_cpu = Some(material.off_cpu_profile(ledger)),
            Mode::Wall => profiles.wall = Some(material.wall_profile(ledger)),
            Mode::Pmu => {}
        }
    }
    (profiles, ledgers)
}

pub(super) fn since_epoch_ns(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
