//! Which sources a capture has.

use events::Mmap;
use kernel::{Kernel, Life, Message, ValuePlan};
use recording::Accounting;

use super::counted_event::CountedEvent;
use super::cpu_clock::CpuClock;
use super::go_locks::GoLocks;
use super::heap::Heap;
use super::probe::Probe;
use super::sched_stats::SchedStats;
use super::scheduler::Scheduler;
use super::source::{Opening, Source};
use super::tracepoint::Tracepoint;
use crate::config::{Counted, SampledEvent};
use crate::{Config, Error, Targets, Warning};

/// The sources of one capture.
#[derive(Default)]
pub(crate) struct Sources {
    /// In the order in which they are opened, enabled and disabled.
    stacks: Vec<Box<dyn Source>>,
    /// Waits of goroutines.
    go_locks: Option<GoLocks>,
    /// Scheduler statistics and counters, which snapshots are taken of.
    pub(crate) sched_stats: Option<SchedStats>,
}

/// The source of an event by its number among the sampled ones.
fn of_event((number, event): (usize, &SampledEvent), config: &Config) -> Box<dyn Source> {
    match &event.counted {
        Counted::ByNumbers(kind, config_number) => {
            Box::new(CountedEvent::new(event, number, (*kind, *config_number), config))
        }
        Counted::Tracepoint(group) => Box::new(Tracepoint::new(event, number, group)),
        Counted::Probe(place) => Box::new(Probe::new(event, number, place)),
    }
}

impl Sources {
    /// The sources that a configuration asks for, not opened yet.
    pub(crate) fn of(config: &Config) -> Self {
        let mut stacks: Vec<_> =
            config.events.iter().enumerate().map(|event| of_event(event, config)).collect();
        if config.cpu_profile && stacks.is_empty() {
            stacks.push(match config.heap {
                Some(_) => Box::new(Heap::new(config)),
                None => Box::new(CpuClock::new(config)),
            });
        }
        if config.follows_waits() || config.pmu {
            stacks.push(Box::new(Scheduler::default()));
        }
        // Of all processes, too many would have to be looked at.
        let go_locks =
            (config.locks && !matches!(config.targets, Targets::System)).then(|| GoLocks::new(config));
        Self { stacks, go_locks, sched_stats: config.pmu.then(|| SchedStats::new(config)) }
    }

    fn each(&mut self) -> impl Iterator<Item = &mut (dyn Source + 'static)> {
        // Counters first: they are to count what the other sources take.
        let stats = self.sched_stats.iter_mut().map(|stats| stats as &mut (dyn Source + 'static));
        let go_locks = self.go_locks.iter_mut().map(|source| source as &mut (dyn Source + 'static));
        stats.chain(self.stacks.iter_mut().map(|source| &mut **source)).chain(go_locks)
    }

    /// Whether waits of goroutines will be recorded in processes with these numbers. Asked before the programs are loaded.
    pub(crate) fn follow_goroutines(&mut self, pids: &[u32]) -> bool {
        self.go_locks.as_mut().is_some_and(|source| source.look_for(pids))
    }

    /// Where the programs read the values of the sampled events that have one, in the order of the events; further sources have none.
    pub(crate) fn value_plans(&mut self) -> Result<Vec<Option<ValuePlan>>, Error> {
        self.stacks.iter_mut().map(|source| source.value_plan()).collect()
    }

    /// Opens all events, disabled.
    pub(crate) fn open(&mut self, opening: &mut Opening<'_>) -> Result<(), Error> {
        self.each().try_for_each(|source| source.open(opening))
    }

    /// Enables all events. The first error ends it.
    pub(crate) fn enable(&mut self, kernel: &mut Kernel, start_ns: u64) -> Result<(), Error> {
        self.each().try_for_each(|source| source.enable(kernel, start_ns))
    }

    /// One more target, which the kernel side records from `now_ns` on. The first error ends it.
    pub(crate) fn add_target(&mut self, kernel: &mut Kernel, pid: u32, now_ns: u64) -> Result<(), Error> {
        self.each().try_for_each(|source| source.add_target(kernel, pid, now_ns))
    }

    /// A living descendant of a target that was added, which the kernel side records from `now_ns` on. The first error ends it.
    pub(crate) fn add_descendant(&mut self, kernel: &mut Kernel, pid: u32, now_ns: u64) -> Result<(), Error> {
        self.each().try_for_each(|source| source.add_descendant(kernel, pid, now_ns))
    }

    /// Something has happened to a recorded process.
    pub(crate) fn follow(&mut self, life: &Life) {
        self.each().for_each(|source| source.follow(life));
    }

    /// A recorded process has mapped a file with code.
    pub(crate) fn mapped(&mut self, mapping: &Mmap) {
        self.each().for_each(|source| source.mapped(mapping));
    }

    /// Does what mappings have made due; the errors of what could not be done.
    pub(crate) fn advance(&mut self, kernel: &mut Kernel) -> Vec<Error> {
        self.each().filter_map(|source| source.advance(kernel).err()).collect()
    }

    /// Stacks that existed when the sources were enabled.
    pub(crate) fn initial_stacks(&mut self) -> Vec<Message> {
        self.each().flat_map(|source| source.initial_stacks()).collect()
    }

    /// Disables all events; the errors of those that could not be.
    pub(crate) fn disable(&mut self, kernel: &mut Kernel, end_ns: u64) -> Vec<Error> {
        self.each().filter_map(|source| source.disable(kernel, end_ns).err()).collect()
    }

    /// CPUs on which a source could not be opened at the start.
    pub(crate) fn is_skipped(&self, cpu: u32) -> bool {
        self.stacks.iter().any(|source| source.skipped_cpus().contains(&cpu))
    }

    /// The sources that follow CPUs, one after the other.
    pub(super) fn followers(&mut self) -> impl Iterator<Item = &mut (dyn Source + 'static)> {
        self.each()
    }

    /// Adds what the sources know about losses.
    pub(crate) fn account(&mut self, kernel: &Kernel, accounting: &mut Accounting) {
        self.each().for_each(|source| source.account(kernel, accounting));
    }

    /// What went less well since the last call.
    pub(crate) fn take_warnings(&mut self) -> Vec<Warning> {
        self.each().flat_map(|source| source.take_warnings()).collect()
    }
}
