//! Counters on CPUs, for all that runs there.

use std::os::fd::BorrowedFd;

use sys::perf;

use super::group::{Opened, Place, Plan, switch_all};
use super::{CounterSpec, Reading, Start};
use crate::Error;
use crate::spec::cpu_number;

/// Counters on CPUs. They count whatever runs there; clocks count idle time too.
#[derive(Debug)]
pub struct CpuCounters {
    plan: Plan,
    /// Also those on which the CPU went offline since: what they counted stays.
    cpus: Vec<OnCpu>,
    enabled: bool,
    uncounted: Vec<u32>,
}

#[derive(Debug)]
struct OnCpu {
    cpu: u32,
    online: bool,
    opened: Opened,
}

impl CpuCounters {
    /// Opens the events on each of `cpus`. [`Start::OnExec`] means nothing here and is taken as [`Start::Disabled`].
    #[must_use]
    pub fn open(specs: &[CounterSpec], cpus: &[u32], start: Start) -> Self {
        let enabled = start == Start::Enabled;
        let start = if enabled { Start::Enabled } else { Start::Disabled };
        let probe = Place { pid: -1, cpu: cpus.first().map_or(0, |&cpu| cpu_number(cpu)) };
        let plan = Plan::new(specs, 0, start, probe);
        let mut counters = Self { plan, cpus: Vec::new(), enabled, uncounted: Vec::new() };
        cpus.iter().for_each(|&cpu| counters.add(cpu));
        let mut available = vec![false; counters.plan.specs.len()];
        for on_cpu in &counters.cpus {
            available.iter_mut().zip(on_cpu.opened.opened()).for_each(|(any, opened)| *any |= opened);
        }
        let lacking = counters.cpus.iter().filter(|on_cpu| !on_cpu.opened.has_all(&available));
        let lacking: Vec<u32> = lacking.map(|on_cpu| on_cpu.cpu).collect();
        counters.uncounted.extend(lacking);
        counters
    }

    fn add(&mut self, cpu: u32) {
        match self.plan.open(Place { pid: -1, cpu: cpu_number(cpu) }) {
            Ok(opened) => self.cpus.push(OnCpu { cpu, online: true, opened }),
            Err(_) => self.uncounted.push(cpu),
        }
    }

    /// Opens the events on CPUs that came online since, counting at once if the others do. Called now and then with
    /// the CPUs that are online: the kernel ends events with their CPU and does not bring them back. Gives the new ones.
    ///
    /// # Errors
    /// [`Error::SwitchCounters`] if the new ones cannot be started.
    pub fn follow(&mut self, online: &[u32]) -> Result<Vec<u32>, Error> {
        for on_cpu in &mut self.cpus {
            on_cpu.online &= online.contains(&on_cpu.cpu);
        }
        let known = self.cpus.len();
        for &cpu in online {
            if !self.cpus.iter().any(|on_cpu| on_cpu.online && on_cpu.cpu == cpu) {
                self.uncounted.retain(|&uncounted| uncounted != cpu);
                self.add(cpu);
            }
        }
        let new = self.cpus[known..].iter().map(|on_cpu| &on_cpu.opened);
        if self.enabled {
            switch_all(new, "enable", perf::enable)?;
        }
        Ok(self.cpus[known..].iter().map(|on_cpu| on_cpu.cpu).collect())
    }

    /// Starts counting.
    ///
    /// # Errors
    /// [`Error::SwitchCounters`]; the others are started all the same.
    pub fn enable(&mut self) -> Result<(), Error> {
        self.enabled = true;
        switch_all(self.cpus.iter().map(|on_cpu| &on_cpu.opened), "enable", perf::enable)
    }

    /// Stops counting.
    ///
    /// # Errors
    /// [`Error::SwitchCounters`]; the others are stopped all the same.
    pub fn disable(&mut self) -> Result<(), Error> {
        self.enabled = false;
        switch_all(self.cpus.iter().map(|on_cpu| &on_cpu.opened), "disable", perf::disable)
    }

    /// What was counted so far, in the order of the events.
    #[must_use]
    pub fn read(&self) -> Vec<Reading> {
        let events = self.plan.specs.iter().enumerate();
        events
            .map(|(number, spec)| {
                let fds = self.cpus.iter().filter_map(|on_cpu| on_cpu.opened.fd(number));
                Reading::sum(spec, fds, self.plan.refused[number].as_deref())
            })
            .collect()
    }

    /// The descriptors of an event (by its number in the list that was opened) on the CPUs that are online, for a BPF
    /// array of perf events. They stay with this value.
    pub fn fds(&self, event: usize) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        let online = self.cpus.iter().filter(|on_cpu| on_cpu.online);
        online.filter_map(move |on_cpu| Some((on_cpu.cpu, on_cpu.opened.fd(event)?)))
    }

    /// CPUs of which some or all events that others have are missing.
    #[must_use]
    pub fn uncounted(&self) -> &[u32] {
        &self.uncounted
    }
}
