//! The clock of each CPU: a sample at each period of the time that a CPU is busy.

use events::{EventSpec, Followed, Options, Present, Set};
use kernel::Kernel;
use recording::Accounting;

use super::source::{Opening, Source};
use crate::failure::{attach_error, load_error};
use crate::{Config, Error};

/// The CPU clock of all CPUs, or of those that were asked for.
pub(crate) struct CpuClock {
    spec: EventSpec,
    /// The CPUs that sampling is restricted to.
    wanted: Option<Vec<u32>>,
    events: Option<Set>,
}

impl CpuClock {
    pub(crate) fn new(config: &Config) -> Self {
        let spec = EventSpec::cpu_clock(config.sample_rate_hz.into());
        Self { spec, wanted: config.cpus.clone(), events: None }
    }
}

impl Source for CpuClock {
    fn open(&mut self, opening: &mut Opening<'_>) -> Result<(), Error> {
        let failed = |error| attach_error(&self.spec, error);
        let cpus = self.wanted.as_deref().unwrap_or(opening.cpus);
        let mut events =
            Set::open_all(&self.spec, cpus, Options { deferred_enable: true }).map_err(failed)?;
        let attached = opening.kernel.with_sampler(|program| events.attach(program)).map_err(load_error)?;
        attached.map_err(failed)?;
        self.events = Some(events);
        Ok(())
    }

    fn enable(&mut self, _: &mut Kernel, _: u64) -> Result<(), Error> {
        let Some(events) = &mut self.events else { return Ok(()) };
        events.enable().map_err(|error| attach_error(&self.spec, error))
    }

    fn follow_cpus(&mut self, _: &mut Kernel, now: &Present) -> Followed {
        let Some(events) = &mut self.events else { return Followed::default() };
        let wanted = self.wanted.as_ref();
        events.follow(&now.only(|cpu| wanted.is_none_or(|cpus| cpus.contains(&cpu))))
    }

    fn skipped_cpus(&self) -> &[u32] {
        self.events.as_ref().map_or(&[], Set::skipped)
    }

    fn disable(&mut self, _: &mut Kernel, _: u64) -> Result<(), Error> {
        let Some(events) = &mut self.events else { return Ok(()) };
        events.disable().map_err(|error| attach_error(&self.spec, error))
    }

    fn account(&mut self, accounting: &mut Accounting) {
        accounting.throttled_ns += self.events.as_mut().and_then(Set::throttled_ns).unwrap_or(0);
    }
}
