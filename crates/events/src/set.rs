//! The same event on every CPU, with one BPF program on all of them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use sys::perf;
use sys::ring::Ring;

use crate::spec::cpu_number;
use crate::throttle::Throttle;
use crate::{Error, EventSpec, monotonic_ns};

/// How to open a [`Set`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Leave the events disabled until [`Set::enable`], so that nothing fires before the program is attached.
    pub deferred_enable: bool,
}

/// One event per CPU. Dropping it closes them, which also detaches the program.
#[derive(Debug)]
pub struct Set {
    spec: EventSpec,
    /// Also those whose CPU went offline since.
    events: Vec<CpuEvent>,
    skipped: Vec<u32>,
    /// For CPUs that come later.
    program: Option<OwnedFd>,
    enabled: bool,
}

#[derive(Debug)]
struct CpuEvent {
    cpu: u32,
    online: bool,
    /// Unmapped before the event is closed. None if it could not be mapped.
    ring: Option<Ring>,
    throttle: Throttle,
    fd: OwnedFd,
}

impl Set {
    /// Opens the event on each of `cpus`. CPUs that are offline (`ESRCH`, `ENODEV`) are left out.
    ///
    /// # Errors
    /// [`Error::Open`] if a CPU refuses for another reason, [`Error::NoCpu`] if all of them are offline,
    /// [`Error::Switch`] if it cannot be enabled. Whatever was opened is closed then.
    pub fn open_all(spec: &EventSpec, cpus: &[u32], options: Options) -> Result<Self, Error> {
        let events = Vec::with_capacity(cpus.len());
        let mut set = Self { spec: *spec, events, skipped: Vec::new(), program: None, enabled: false };
        for &cpu in cpus {
            match set.open(cpu)? {
                Some(event) => set.events.push(event),
                None => set.skipped.push(cpu),
            }
        }
        if set.events.is_empty() {
            return Err(Error::NoCpu { event: spec.name(), cpus: cpus.len() });
        }
        if !options.deferred_enable {
            set.enable()?;
        }
        Ok(set)
    }

    /// The event on a CPU; none if that is offline.
    fn open(&self, cpu: u32) -> Result<Option<CpuEvent>, Error> {
        match perf::open(&self.spec.attr(), -1, cpu_number(cpu), None) {
            Ok(fd) => {
                // The ring only serves to count throttling, so a set without it is still a set.
                let ring = Ring::map(fd.as_fd(), 1).ok();
                Ok(Some(CpuEvent { cpu, online: true, ring, throttle: Throttle::default(), fd }))
            }
            Err(error) if is_offline(&error) => Ok(None),
            Err(source) => Err(Error::Open { event: self.spec.name(), cpu, source }),
        }
    }

    /// Runs the program at every event from now on. The set and its events keep it alive; the caller may close it.
    ///
    /// # Errors
    /// [`Error::Attach`]; CPUs before the one it names have the program then, and lose it with the set.
    pub fn attach(&mut self, program: BorrowedFd<'_>) -> Result<(), Error> {
        self.events.iter().try_for_each(|event| event.attach(program))?;
        let kept = program.try_clone_to_owned();
        let cpu = self.events.first().map_or(0, |event| event.cpu);
        self.program = Some(kept.map_err(|source| Error::Attach { cpu, source })?);
        Ok(())
    }

    /// Opens the event on CPUs that came online since, with the program, and starts it if the others are. Called now and
    /// then with the CPUs that are online and wanted: the kernel ends events with their CPU and does not bring
    /// them back. Gives the new ones.
    ///
    /// # Errors
    /// [`Error::Open`], [`Error::Attach`], [`Error::Switch`] for a CPU; it is tried again by the next call.
    pub fn follow(&mut self, online: &[u32]) -> Result<Vec<u32>, Error> {
        for event in &mut self.events {
            event.online &= online.contains(&event.cpu);
        }
        let mut new = Vec::new();
        for &cpu in online {
            if self.events.iter().any(|event| event.online && event.cpu == cpu) {
                continue;
            }
            let Some(event) = self.open(cpu)? else { continue };
            if let Some(program) = &self.program {
                event.attach(program.as_fd())?;
            }
            if self.enabled {
                let enabled = perf::enable(event.fd.as_fd());
                enabled.map_err(|source| Error::Switch { action: "enable", cpu, source })?;
            }
            self.skipped.retain(|&skipped| skipped != cpu);
            self.events.push(event);
            new.push(cpu);
        }
        Ok(new)
    }

    /// Starts all events.
    ///
    /// # Errors
    /// [`Error::Switch`]; the others are started all the same.
    pub fn enable(&mut self) -> Result<(), Error> {
        self.enabled = true;
        self.switch("enable", perf::enable)
    }

    /// Stops all events.
    ///
    /// # Errors
    /// [`Error::Switch`]; the others are stopped all the same.
    pub fn disable(&mut self) -> Result<(), Error> {
        self.enabled = false;
        self.switch("disable", perf::disable)
    }

    fn switch(
        &self,
        action: &'static str,
        switch: fn(BorrowedFd<'_>) -> std::io::Result<()>,
    ) -> Result<(), Error> {
        let mut result = Ok(());
        for event in &self.events {
            let switched =
                switch(event.fd.as_fd()).map_err(|source| Error::Switch { action, cpu: event.cpu, source });
            result = result.and(switched);
        }
        result
    }

    /// Time that the kernel kept events from firing because they fired too often, summed over the CPUs. None if
    /// that is not known, because a ring could not be mapped.
    pub fn throttled_ns(&mut self) -> Option<u64> {
        let now = monotonic_ns();
        let mut total = 0u64;
        for event in &mut self.events {
            event.ring.as_mut()?.drain(|record| event.throttle.record(record));
            total = total.saturating_add(event.throttle.total_ns(now));
        }
        Some(total)
    }

    /// The CPUs that have the event.
    pub fn cpus(&self) -> impl Iterator<Item = u32> {
        self.events.iter().filter(|event| event.online).map(|event| event.cpu)
    }

    /// The CPUs that were left out because they are offline.
    #[must_use]
    pub fn skipped(&self) -> &[u32] {
        &self.skipped
    }

    /// The events, for those who read or map them in another way.
    pub fn fds(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        self.events.iter().map(|event| (event.cpu, event.fd.as_fd()))
    }
}

impl CpuEvent {
    fn attach(&self, program: BorrowedFd<'_>) -> Result<(), Error> {
        perf::set_bpf(self.fd.as_fd(), program).map_err(|source| Error::Attach { cpu: self.cpu, source })
    }
}

/// The kernel says `ENODEV` for a CPU that is offline, and `ESRCH` for one on its way there.
pub(crate) fn is_offline(error: &std::io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::SRCH | Errno::NODEV))
}
