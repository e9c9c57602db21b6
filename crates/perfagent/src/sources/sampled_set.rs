//! The sampler at an event of each CPU: of all, or of those that were asked for. Opening, switching, and following CPUs that come and go.
//! Not here: which event, what its errors mean, and how many samples were due.

use events::{EventSpec, Followed, Options, PerfEventSet, Present};
use kernel::Kernel;

use super::source::Opening;
use crate::failure::load_error;
use crate::{Config, Error};

/// An event on the CPUs.
pub(super) struct SampledSet {
    /// The number of the event among the sampled ones.
    number: usize,
    spec: EventSpec,
    /// The CPUs that sampling is restricted to.
    wanted: Option<Vec<u32>>,
    /// None until it is opened.
    events: Option<PerfEventSet>,
}

impl SampledSet {
    pub(super) fn new(spec: EventSpec, number: usize, config: &Config) -> Self {
        Self { number, spec, wanted: config.cpus.clone(), events: None }
    }

    pub(super) fn spec(&self) -> &EventSpec {
        &self.spec
    }

    /// The open event.
    pub(super) fn events(&mut self) -> Option<&mut PerfEventSet> {
        self.events.as_mut()
    }

    /// Opens the event, which samples nothing yet.
    pub(super) fn open(&mut self, opening: &Opening<'_>) -> Result<(), events::Error> {
        let cpus = self.wanted.as_deref().unwrap_or(opening.cpus);
        self.events = Some(PerfEventSet::open_all(&self.spec, cpus, Options { deferred_enable: true })?);
        Ok(())
    }

    /// Attaches the sampler. The inner error is the kernel's refusal.
    pub(super) fn attach(&mut self, kernel: &mut Kernel) -> Result<Result<(), events::Error>, Error> {
        let Some(events) = &mut self.events else { return Ok(Ok(())) };
        kernel.with_sampler(self.number, |program| events.attach(program)).map_err(load_error)
    }

    pub(super) fn enable(&mut self) -> Result<(), events::Error> {
        self.events.as_mut().map_or(Ok(()), PerfEventSet::enable)
    }

    pub(super) fn disable(&mut self) -> Result<(), events::Error> {
        self.events.as_mut().map_or(Ok(()), PerfEventSet::disable)
    }

    pub(super) fn follow_cpus(&mut self, now: &Present) -> Followed {
        let Some(events) = &mut self.events else { return Followed::default() };
        let wanted = self.wanted.as_ref();
        events.follow(&now.only(|cpu| wanted.is_none_or(|cpus| cpus.contains(&cpu))))
    }

    pub(super) fn skipped_cpus(&self) -> &[u32] {
        self.events.as_ref().map_or(&[], PerfEventSet::skipped)
    }
}
