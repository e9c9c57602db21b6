//! What a running capture consists of.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use events::SideBand;
use kernel::Kernel;
use metrics::endpoint::Server;
use recording::Accounting;
use sys::clock::kernel_ns;

use super::intake::Intake;
use super::live_context::LiveContext;
use super::process_places::ProcessPlaces;
use super::shared::Shared;
use crate::child::ChildHandle;
use crate::hooks::{ExecutedProgram, HookThread};
use crate::injection::Injector;
use crate::naming::{LateNames, Naming};
use crate::processes::{Arrivals, Processes};
use crate::sources::{CpuFollower, Sources};
use crate::unwinding::TableStore;
use crate::usage::Usage;
use crate::{Config, Ledger, Warning, WarningKind};

/// Warnings of one capture that are kept at most.
const MAX_WARNINGS: usize = 64;

/// The warnings of a capture, each once.
#[derive(Default)]
pub(super) struct Warnings(Vec<Warning>);

impl Warnings {
    pub(super) fn add(&mut self, warning: Warning) {
        if self.0.iter().all(|known| known.message != warning.message) && self.0.len() < MAX_WARNINGS {
            self.0.push(warning);
        }
    }

    pub(super) fn extend(&mut self, warnings: impl IntoIterator<Item = Warning>) {
        warnings.into_iter().for_each(|warning| self.add(warning));
    }

    /// The value, or `None` after a warning: a capture goes on with what works.
    pub(super) fn checked<T>(&mut self, result: Result<T, kernel::Error>) -> Option<T> {
        result
            .inspect_err(|error| {
                let hint = "profile fewer processes at a time";
                self.add(Warning::new(WarningKind::Capture, error.to_string(), hint));
            })
            .ok()
    }

    pub(super) fn take(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.0)
    }
}

/// The interval that goes on: the whole capture, unless it is cut.
pub(super) struct Interval {
    pub(super) started: SystemTime,
    /// `CLOCK_MONOTONIC`.
    pub(super) start_ns: u64,
    /// The counts of the capture at its begin.
    pub(super) before: Accounting,
    /// What earlier intervals counted and this one shows.
    pub(super) carried: Carried,
}

/// Samples, waits and times that one interval counts and the next one shows, because their stacks come late.
#[derive(Clone, Debug, Default)]
pub(super) struct Carried {
    pub(super) samples: u64,
    /// Samples of further events, in their order.
    pub(super) further: Vec<u64>,
    pub(super) waits: u64,
    /// Waits for locks.
    pub(super) locks: u64,
    /// Time of threads. 0 without a wall-clock profile.
    pub(super) time_ns: u64,
}

impl Carried {
    /// Adds it to what an interval counted itself.
    pub(super) fn add_to(&self, accounting: &mut Accounting) {
        accounting.sampler.samples += self.samples;
        for (of_event, samples) in accounting.further.iter_mut().zip(&self.further) {
            of_event.sampler.samples += samples;
        }
        accounting.scheduler.samples += self.waits;
        accounting.scheduler.lock_waits += self.locks;
        accounting.scheduler.lifetime_ns += self.time_ns;
    }

    /// Takes it from what an interval counted.
    pub(super) fn take_from(&self, accounting: &mut Accounting) {
        let Accounting { sampler, scheduler, further, .. } = accounting;
        for (of_event, samples) in further.iter_mut().zip(&self.further) {
            of_event.sampler.samples = of_event.sampler.samples.saturating_sub(*samples);
        }
        sampler.samples = sampler.samples.saturating_sub(self.samples);
        scheduler.samples = scheduler.samples.saturating_sub(self.waits);
        scheduler.lock_waits = scheduler.lock_waits.saturating_sub(self.locks);
        scheduler.lifetime_ns = scheduler.lifetime_ns.saturating_sub(self.time_ns);
    }
}

impl Interval {
    /// The first interval of a capture.
    pub(super) fn first(started: SystemTime, start_ns: u64) -> Self {
        Self { started, start_ns, before: Accounting::default(), carried: Carried::default() }
    }
}

/// A running capture. Dropping it closes and detaches everything.
pub(super) struct Parts {
    pub(super) config: Config,
    pub(super) settings: recording::Settings,
    pub(super) origin: recording::Origin,
    pub(super) shared: Arc<Shared>,
    pub(super) kernel: Kernel,
    pub(super) sources: Sources,
    pub(super) side_band: SideBand,
    pub(super) cpus: CpuFollower,
    pub(super) processes: Processes,
    /// Records and messages that are not applied yet.
    pub(super) arrivals: Arrivals,
    pub(super) tables: TableStore,
    pub(super) process_places: ProcessPlaces,
    pub(super) intake: Intake,
    pub(super) naming: Naming,
    /// Switches trampolines of CPython, if that was asked for and until the end.
    pub(super) injector: Option<Injector>,
    /// The thread that is told of executed programs.
    pub(super) exec_hooks: HookThread<ExecutedProgram>,
    /// The metrics endpoint, if there is one.
    pub(super) server: Option<Server>,
    pub(super) command: Option<ChildHandle>,
    pub(super) first_target: Option<u32>,
    pub(super) warnings: Warnings,
    /// When the capture began.
    pub(super) started: SystemTime,
    /// The same, `CLOCK_MONOTONIC`.
    pub(super) start_ns: u64,
    pub(super) interval: Interval,
    /// The ledgers as last computed.
    pub(super) ledgers: Vec<Ledger>,
    pub(super) usage: Usage,
    /// When new frames were last handed over to be named.
    pub(super) named: Instant,
}

impl Parts {
    /// Hands new frames over to be named.
    pub(super) fn send_new_frames(&mut self) {
        let context = LiveContext { builder: &self.intake.builder, resolver: &self.intake.resolver };
        self.naming.send_new(context.builder.frames(), &context);
    }

    /// Hands all frames over to be named: the interval ends.
    pub(super) fn end_naming(&mut self) -> LateNames {
        let context = LiveContext { builder: &self.intake.builder, resolver: &self.intake.resolver };
        self.naming.end_interval(context.builder.frames(), &context)
    }

    /// Length of the capture so far.
    pub(super) fn elapsed(&self) -> std::time::Duration {
        std::time::Duration::from_nanos(kernel_ns().saturating_sub(self.start_ns))
    }
}
