//! The same event on every CPU, with one BPF program on all of them.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use sys::clock::kernel_ns;
use sys::ring::Ring;
use sys::{bpf_link, perf};

use crate::cpus::PerCpu;
use crate::spec::cpu_number;
use crate::throttle::Throttle;
use crate::{Error, EventSpec, Followed, Present};

/// How to open a [`PerfEventSet`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Leave the events disabled until [`PerfEventSet::enable`], so that nothing fires before the program is attached.
    pub deferred_enable: bool,
}

/// One event per CPU. Dropping it closes the events, which also detaches the program.
#[derive(Debug)]
pub struct PerfEventSet {
    spec: EventSpec,
    events: PerCpu<CpuEvent>,
    skipped: Vec<u32>,
    /// The throttled time of events that were closed with their CPU; none if unknown.
    closed_throttled_ns: Option<u64>,
    /// The time for which events ran that were closed with their CPU.
    closed_ran_ns: BTreeMap<u32, u64>,
    /// For CPUs that come online later.
    program: Option<OwnedFd>,
    enabled: bool,
}

#[derive(Debug)]
struct CpuEvent {
    /// Unmapped before the event is closed. None if it could not be mapped.
    ring: Option<Ring>,
    throttle: Throttle,
    /// Closed before the event. None without a program, and where the event itself has it.
    link: Option<OwnedFd>,
    fd: OwnedFd,
}

impl PerfEventSet {
    /// Opens the event on each of `cpus`. Offline CPUs (`ESRCH`, `ENODEV`) are left out.
    ///
    /// # Errors
    /// [`Error::Open`] if a CPU refuses for another reason, [`Error::NoCpu`] if all of them are offline,
    /// [`Error::Switch`] if an event cannot be enabled. Then everything that was opened is closed.
    pub fn open_all(spec: &EventSpec, cpus: &[u32], options: Options) -> Result<Self, Error> {
        let events = PerCpu::open(cpus, |cpu| CpuEvent::open(spec, cpu))?;
        if events.is_empty() {
            return Err(Error::NoCpu { event: spec.name(), cpus: cpus.len() });
        }
        let skipped = cpus.iter().copied().filter(|&cpu| events.get(cpu).is_none()).collect();
        let closed_throttled_ns = Some(0);
        let mut set = Self {
            spec: *spec,
            events,
            skipped,
            closed_throttled_ns,
            closed_ran_ns: BTreeMap::new(),
            program: None,
            enabled: false,
        };
        if !options.deferred_enable {
            set.enable()?;
        }
        Ok(set)
    }

    /// Runs the program at every event from now on. The set and its events hold a reference; the caller may close the
    /// program.
    ///
    /// # Errors
    /// [`Error::Attach`]. CPUs before the named one keep the program until the set is dropped.
    pub fn attach(&mut self, program: BorrowedFd<'_>) -> Result<(), Error> {
        self.events.iter_mut().try_for_each(|(cpu, event)| event.attach(cpu, program))?;
        let kept = program.try_clone_to_owned();
        let cpu = self.events.cpus().next().unwrap_or_default();
        self.program = Some(kept.map_err(|source| Error::Attach { cpu, source })?);
        Ok(())
    }

    /// Closes the event on CPUs that have gone offline. Opens it on CPUs that have come online, with the program, and
    /// enables it if the others are enabled.
    pub fn follow(&mut self, now: &Present) -> Followed {
        let Self { spec, events, skipped, closed_throttled_ns, closed_ran_ns, program, enabled } = self;
        let now_ns = kernel_ns();
        let close = |cpu, mut event: CpuEvent| {
            *closed_ran_ns.entry(cpu).or_default() += event.ran_ns();
            let of_event = event.throttled_ns(now_ns);
            *closed_throttled_ns =
                closed_throttled_ns.zip(of_event).map(|(sum, more)| sum.saturating_add(more));
        };
        let followed = events.follow(now, close, |cpu| {
            let Some(mut event) = CpuEvent::open(spec, cpu)? else { return Ok(None) };
            if let Some(program) = program {
                event.attach(cpu, program.as_fd())?;
            }
            if *enabled {
                let enabled = perf::enable(event.fd.as_fd());
                enabled.map_err(|source| Error::Switch { action: "enable", cpu, source })?;
            }
            Ok(Some(event))
        });
        skipped.retain(|cpu| !followed.opened.contains(cpu));
        followed
    }

    /// Starts all events.
    ///
    /// # Errors
    /// [`Error::Switch`]; the other events are started nevertheless.
    pub fn enable(&mut self) -> Result<(), Error> {
        self.enabled = true;
        self.switch("enable", perf::enable)
    }

    /// Stops all events.
    ///
    /// # Errors
    /// [`Error::Switch`]; the other events are stopped nevertheless.
    pub fn disable(&mut self) -> Result<(), Error> {
        self.enabled = false;
        self.switch("disable", perf::disable)
    }

    /// Stops all events, detaches the program and closes everything. A second time it does nothing.
    ///
    /// # Errors
    /// [`Error::Switch`]; everything is closed nevertheless.
    pub fn close(&mut self) -> Result<(), Error> {
        let disabled = self.disable();
        (self.events, self.program) = (PerCpu::default(), None);
        disabled
    }

    fn switch(
        &self,
        action: &'static str,
        switch: fn(BorrowedFd<'_>) -> std::io::Result<()>,
    ) -> Result<(), Error> {
        let mut result = Ok(());
        for (cpu, event) in self.events.iter() {
            let switched = switch(event.fd.as_fd()).map_err(|source| Error::Switch { action, cpu, source });
            result = result.and(switched);
        }
        result
    }

    /// The time for which the kernel throttled events that fired too often, summed over the CPUs. None if unknown,
    /// because a ring could not be mapped.
    pub fn throttled_ns(&mut self) -> Option<u64> {
        let now = kernel_ns();
        let mut total = self.closed_throttled_ns?;
        for (_, event) in self.events.iter_mut() {
            total = total.saturating_add(event.throttled_ns(now)?);
        }
        Some(total)
    }

    /// The time for which the event ran on each CPU that had it. An event that could not be read did not run.
    #[must_use]
    pub fn ran_ns(&self) -> BTreeMap<u32, u64> {
        let mut ran = self.closed_ran_ns.clone();
        for (cpu, event) in self.events.iter() {
            *ran.entry(cpu).or_default() += event.ran_ns();
        }
        ran
    }

    /// The CPUs that have the event.
    pub fn cpus(&self) -> impl Iterator<Item = u32> {
        self.events.cpus()
    }

    /// The CPUs that were left out because they were offline.
    #[must_use]
    pub fn skipped(&self) -> &[u32] {
        &self.skipped
    }

    /// The descriptors of the events, for other ways to read or map them.
    pub fn fds(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        self.events.iter().map(|(cpu, event)| (cpu, event.fd.as_fd()))
    }
}

impl CpuEvent {
    /// None if the CPU is offline.
    fn open(spec: &EventSpec, cpu: u32) -> Result<Option<Self>, Error> {
        match perf::open(&spec.attr(), -1, cpu_number(cpu), None) {
            Ok(fd) => {
                // The ring only counts throttling, so the event works without it.
                let ring = Ring::map(fd.as_fd(), 1).ok();
                Ok(Some(Self { ring, throttle: Throttle::default(), link: None, fd }))
            }
            Err(error) if is_offline(&error) => Ok(None),
            Err(source) => Err(Error::Open { event: spec.name(), cpu, source }),
        }
    }

    /// By a link, which tools show, where the kernel has those (5.15).
    fn attach(&mut self, cpu: u32, program: BorrowedFd<'_>) -> Result<(), Error> {
        match bpf_link::link(self.fd.as_fd(), program) {
            Ok(link) => self.link = Some(link),
            Err(_) => {
                perf::set_bpf(self.fd.as_fd(), program).map_err(|source| Error::Attach { cpu, source })?
            }
        }
        Ok(())
    }

    fn ran_ns(&self) -> u64 {
        perf::read_count(self.fd.as_fd()).map_or(0, |count| count.running_ns)
    }

    /// None if unknown.
    fn throttled_ns(&mut self, now_ns: u64) -> Option<u64> {
        self.ring.as_mut()?.drain(|record| self.throttle.record(record));
        Some(self.throttle.total_ns(now_ns))
    }
}

/// The kernel returns `ENODEV` for an offline CPU, and `ESRCH` for one that is going offline.
pub(crate) fn is_offline(error: &std::io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::SRCH | Errno::NODEV))
}
