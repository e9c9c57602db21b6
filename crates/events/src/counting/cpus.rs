//! Counters on CPUs, for all that runs there.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;

use sys::perf;

use super::group::{Opened, Place, Plan, switch_all};
use super::reading::Sum;
use super::{CounterSpec, Reading, Start};
use crate::cpus::PerCpu;
use crate::spec::cpu_number;
use crate::{Error, Followed, Present};

/// Counters on CPUs. They count whatever runs there; clocks count idle time too.
#[derive(Debug)]
pub struct CpuCounters {
    plan: Plan,
    cpus: PerCpu<Opened>,
    /// By event: what was counted on CPUs that have gone since.
    closed: Vec<Sum>,
    /// By event: whether any CPU had it at the beginning.
    available: Vec<bool>,
    enabled: bool,
    uncounted: BTreeSet<u32>,
}

impl CpuCounters {
    /// Opens the events on each of `cpus`. [`Start::OnExec`] means nothing here and is taken as [`Start::Disabled`].
    #[must_use]
    pub fn open(specs: &[CounterSpec], cpus: &[u32], start: Start) -> Self {
        let probe = Place { pid: -1, cpu: cpus.first().map_or(0, |&cpu| cpu_number(cpu)) };
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

    /// Closes the events on CPUs that have gone, of which the counts stay, and opens them on those that have come, counting at
    /// once if the others do.
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
            let Ok(opened) = plan.open(Place { pid: -1, cpu: cpu_number(cpu) }) else { return Ok(None) };
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
    /// [`Error::SwitchCounters`]; the others are started all the same.
    pub fn enable(&mut self) -> Result<(), Error> {
        self.enabled = true;
        switch_all(self.cpus.iter().map(|(_, opened)| opened), "enable", perf::enable)
    }

    /// Stops counting.
    ///
    /// # Errors
    /// [`Error::SwitchCounters`]; the others are stopped all the same.
    pub fn disable(&mut self) -> Result<(), Error> {
        self.enabled = false;
        switch_all(self.cpus.iter().map(|(_, opened)| opened), "disable", perf::disable)
    }

    /// What was counted so far, in the order of the events.
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

    /// The descriptors of an event (by its number in the list that was opened), for a BPF array of perf events. They stay with
    /// this value until their CPU goes.
    pub fn fds(&self, event: usize) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        self.cpus.iter().filter_map(move |(cpu, opened)| Some((cpu, opened.fd(event)?)))
    }

    /// The descriptor of an event on one CPU.
    #[must_use]
    pub fn fd(&self, event: usize, cpu: u32) -> Option<BorrowedFd<'_>> {
        self.cpus.get(cpu)?.fd(event)
    }

    /// How many CPUs lack some or all events that others have.
    #[must_use]
    pub fn uncounted(&self) -> usize {
        self.uncounted.len()
    }
}
