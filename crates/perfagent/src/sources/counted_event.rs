//! An event that the kernel or the hardware counts, in place of the clock: a sample at each Nth occurrence, on the CPU on which it happens.

use std::collections::BTreeMap;
use std::io;

use events::{EventKind, EventSpec, Followed, PerfEventSet, Present, Rate};
use kernel::{Kernel, SampledIn, nmi_may_sample};
use recording::{Accounting, NotRun, Unit};
use rustix::io::Errno;

use super::not_run::{self, Ran};
use super::sampled_set::SampledSet;
use super::source::{Opening, Source};
use crate::config::SampledEvent;
use crate::failure::attach_error;
use crate::{Config, Error};

/// The event on all CPUs, or on those that were asked for.
pub(crate) struct CountedEvent {
    event: SampledEvent,
    /// Its number among the sampled ones.
    number: usize,
    set: SampledSet,
}

impl CountedEvent {
    /// The event with these numbers of the kernel: its `type` and its `config`.
    pub(crate) fn new(
        event: &SampledEvent,
        number: usize,
        (kind, of_kernel): (u32, u64),
        config: &Config,
    ) -> Self {
        let spec = EventSpec::new(EventKind::Raw { kind, config: of_kernel }, Rate::Period(event.period));
        Self { event: event.clone(), number, set: SampledSet::new(spec, number, config) }
    }

    fn failed(&self, error: events::Error) -> Error {
        if let Some(lack) = self.lack(&error) {
            return lack;
        }
        match attach_error(self.set.spec(), error) {
            // The numbers of the event tell nobody anything.
            Error::Attach { cpu, source, .. } => {
                Error::Attach { event: self.event.name.clone(), cpu, source }
            }
            other => other,
        }
    }

    /// What this machine lacks, if that is why the event cannot be opened.
    fn lack(&self, error: &events::Error) -> Option<Error> {
        let errno = error.errno().map(Errno::from_raw_os_error)?;
        let is_unknown = matches!(errno, Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV | Errno::INVAL);
        let since = match self.event.sampled_in {
            SampledIn::Hardware => {
                "a processor that counts it, and a virtual machine or container that is given its PMU; \
                 without one: --event task-clock, or another event that the kernel counts"
            }
            _ => "a later kernel",
        };
        is_unknown.then(|| Error::Unsupported {
            feature: format!("the event {}", self.event.name),
            since: since.to_owned(),
        })
    }
}

impl Source for CountedEvent {
    fn open(&mut self, opening: &mut Opening<'_>) -> Result<(), Error> {
        self.set.open(opening).map_err(|error| self.failed(error))?;
        if self.event.sampled_in == SampledIn::Hardware && !nmi_may_sample() {
            return Err(Error::Unsupported {
                feature: format!("sampling by {}, which comes as an NMI,", self.event.name),
                since: "Linux 5.11 with CONFIG_DEBUG_INFO_BTF".to_owned(),
            });
        }
        self.set.attach(opening.kernel)?.map_err(|error| self.failed(error))
    }

    fn enable(&mut self, _: &mut Kernel, _: u64) -> Result<(), Error> {
        self.set.enable().map_err(|error| self.failed(error))
    }

    fn follow_cpus(&mut self, _: &mut Kernel, now: &Present) -> Followed {
        self.set.follow_cpus(now)
    }

    fn skipped_cpus(&self) -> &[u32] {
        self.set.skipped_cpus()
    }

    fn disable(&mut self, _: &mut Kernel, _: u64) -> Result<(), Error> {
        self.set.disable().map_err(|error| self.failed(error))
    }

    fn account(&mut self, kernel: &Kernel, accounting: &mut Accounting) {
        let Some(events) = self.set.events() else { return };
        let throttled_ns = events.throttled_ns().unwrap_or(0);
        let mut not_run = NotRun::default();
        // Counts of the hardware are shared and scaled, and those of a clock lack idle time: only what the kernel counts is exact.
        if self.event.unit == Unit::Count && self.event.sampled_in == SampledIn::Task {
            let period = self.event.period.max(1);
            let ran = counts(events).into_iter().map(|(cpu, count)| {
                (
                    cpu,
                    Ran {
                        due: count.unwrap_or(0) / period,
                        times: kernel.ticks(self.number, cpu).all,
                        ..Ran::default()
                    },
                )
            });
            not_run = not_run::estimate(&ran.collect(), 0);
        }
        accounting.note_sampled(self.number, throttled_ns, not_run);
    }
}

/// How often the event has happened on each CPU, before the program runs are counted.
fn counts(events: &PerfEventSet) -> BTreeMap<u32, io::Result<u64>> {
    events.fds().map(|(cpu, fd)| (cpu, sys::perf::read_count(fd).map(|count| count.value))).collect()
}
