//! Counters on CPUs, for all threads that run there.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;

use sys::perf;

use super::group::{CounterSlot, Opened, Plan, switch_all};
use super::reading::Sum;
use super::{CounterSpec, Reading, Start};
use crate::cpus::PerCpu;
use crate::spec::cpu_number;
use crate::{Error, Followed, Present};

/// Counters on CPUs. They count all threads that run there; clocks count idle time too.
#[derive(Debug)]
pub struct CpuCounters {
    plan: Plan,
    cpus: PerCpu<Opened>,
    /// By event: the counts of CPUs that have gone offline since.
    closed: Vec<Sum>,
    /// By event: whether any CPU had it when the counters were opened.
    available: Vec<bool>,
    enabled: bool,
    uncounted: BTreeSet<u32>,
}

impl CpuCounters {
    /// Opens the events on each of `cpus`. CPUs have no exec: [`Start::OnExec`] is treated as [`Start::Disabled`].
    #[must_use]
    pub fn open(specs: &[CounterSpec], cpus: &[u32], start: Start) -> Self {
        let probe = CounterSlot { pid: -1, cpu: cpus.first().map_or(0, |&cpu| cpu_number(cpu)) };
        let mut counters = Self {
            plan: Plan::new(specs, 0, Start::Disabled, probe),
            cpus: PerCpu::default(),
            closed: vec![Sum::default(); specs.len()],
            available: vec![false; specs.len()],
            enabled: start == Start::Enabled,
            uncounted: BTreeSet::new(),
        };
        let followed = counters.open_on(&Present { online: cpus.to_vec(), ended: Vec::new() });
        for (_, opened) in counters.cpus.iter() {
            counters.available.iter_mut().zip(opened.opened()).for_each(|(any, opened)| *any |= opened);
        }
        counters.note_uncounted(&followed);
        counters
    }

    /// Closes the events on CPUs that have gone offline and keeps their counts. Opens the events on CPUs that have come
    /// online, enabled if the others are.
    pub fn follow(&mut self, now: &Present) -> Followed {
        let followed = self.open_on(now);
        self.note_uncounted(&followed);
        followed
    }

    fn open_on(&mut self, now: &Present) -> Followed {
        let Self { plan, cpus, closed, enabled, .. } = self;
        let close = |_, opened: Opened| {
            closed.iter_mut().enumerate().for_each(|(number, sum)| sum.add(opened.fd(number).into_iter()));
        };
        cpus.follow(now, close, |cpu| {
            // The error says that the CPU is offline.
            let Ok(opened) = plan.open(CounterSlot { pid: -1, cpu: cpu_number(cpu) }) else {
                return Ok(None);
            };
            if *enabled {
                switch_all(std::iter::once(&opened), "enable", perf::enable)?;
            }
            Ok(Some(opened))
        })
    }

    fn note_uncounted(&mut self, followed: &Followed) {
        self.uncounted.extend(followed.missing.iter().map(|(cpu, _)| *cpu));
        for &cpu in &followed.opened {
            if self.cpus.get(cpu).is_some_and(|opened| opened.has_all(&self.available)) {
                self.uncounted.remove(&cpu);
            } else {
                self.uncounted.insert(cpu);
            }
        }
    }

    /// Starts counting.
    ///
    /// # Errors
    /// [`Error::SwitchCounters`]; the other counters are started nevertheless.
    pub fn enable(&mut self) -> Result<(), Error> {
        self.enabled = true;
        switch_all(self.cpus.iter().map(|(_, opened)| opened), "enable", perf::enable)
    }

    /// Stops counting.
    ///
    /// # Errors
    /// [`Error::SwitchCounters`]; the other counters are stopped nevertheless.
    pub fn disable(&mut self) -> Result<(), Error> {
        self.enabled = false;
        switch_all(self.cpus.iter().map(|(_, opened)| opened), "disable", perf::disable)
    }

    /// The counts so far, in the order of the events.
    #[must_use]
    pub fn read(&self) -> Vec<Reading> {
        let events = self.plan.specs.iter().zip(&self.closed).enumerate();
        events
            .map(|(number, (spec, closed))| {
                let mut sum = *closed;
                sum.add(self.cpus.iter().filter_map(|(_, opened)| opened.fd(number)));
                sum.reading(spec, self.plan.refused[number].as_deref())
            })
            .collect()
    }

    /// The descriptors of an event, by its index in the list that was opened, for a BPF array of perf events. They are
    /// valid until their CPU goes offline.
    pub fn fds(&self, event: usize) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        self.cpus.iter().filter_map(move |(cpu, opened)| Some((cpu, opened.fd(event)?)))
    }

    /// The descriptor of an event on one CPU.
    #[must_use]
    pub fn fd(&self, event: usize, cpu: u32) -> Option<BorrowedFd<'_>> {
        self.cpus.get(cpu)?.fd(event)
    }

    /// The number of CPUs without some events that other CPUs have.
    #[must_use]
    pub fn uncounted(&self) -> usize {
        self.uncounted.len()
    }
}
