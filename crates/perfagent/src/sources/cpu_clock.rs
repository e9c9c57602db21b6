//! The clock of each CPU: a sample at each period of the time that a CPU is busy.

use std::collections::BTreeMap;

use events::{EventSpec, Followed, Present};
use kernel::Kernel;
use recording::Accounting;

use super::not_run::{self, CpuTimes, Ran};
use super::sampled_set::SampledSet;
use super::source::{Opening, Source};
use crate::failure::attach_error;
use crate::{Config, Error};

/// The CPU clock of all CPUs, or of those that were asked for.
pub(crate) struct CpuClock {
    set: SampledSet,
    rate_hz: u32,
    /// What each CPU had done before the events were enabled.
    before: BTreeMap<u32, CpuTimes>,
}

impl CpuClock {
    pub(crate) fn new(config: &Config) -> Self {
        // Idle time is not recorded. The program leaves it out and not the kernel, so that most periods have a run.
        let spec = EventSpec { exclude_idle: false, ..EventSpec::cpu_clock(config.sample_rate_hz.into()) };
        let (set, rate_hz) = (SampledSet::new(spec, 0, config), config.sample_rate_hz);
        Self { set, rate_hz, before: BTreeMap::new() }
    }

    fn failed(&self, error: events::Error) -> Error {
        attach_error(self.set.spec(), error)
    }
}

impl Source for CpuClock {
    fn open(&mut self, opening: &mut Opening<'_>) -> Result<(), Error> {
        self.set.open(opening).map_err(|error| self.failed(error))?;
        self.set.attach(opening.kernel)?.map_err(|error| self.failed(error))
    }

    fn enable(&mut self, _: &mut Kernel, _: u64) -> Result<(), Error> {
        self.before = cpu_times();
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
        // Before the runs are counted: a period in between is no missing one.
        let event_ns = events.ran_ns();
        let now = cpu_times();
        let ran = event_ns.into_iter().map(|(cpu, event_ns)| {
            let at = |times: &BTreeMap<u32, CpuTimes>| times.get(&cpu).copied().unwrap_or_default();
            let ticks = kernel.ticks(0, cpu);
            let meanwhile = at(&now).since(at(&self.before));
            (cpu, Ran::of_clock(event_ns, ticks.all, ticks.idle, meanwhile, self.rate_hz))
        });
        let throttled = not_run::periods(throttled_ns, self.rate_hz);
        accounting.note_sampled(0, throttled_ns, not_run::estimate(&ran.collect(), throttled));
    }
}

/// What each CPU has done so far; nothing where that cannot be read.
fn cpu_times() -> BTreeMap<u32, CpuTimes> {
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    not_run::cpu_times(&std::fs::read_to_string("/proc/stat").unwrap_or_default(), tick_ns)
}
