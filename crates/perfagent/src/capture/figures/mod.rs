//! Figures of the scheduler and counters of a capture, put together as a snapshot.

mod kept;

use std::time::Duration;

use events::Present;
use events::counting::{CountOutcome, CounterSpec, CpuCounters, Reading, Start, ThreadCounters, Unit};
use kernel::{Counters as KernelCounters, EventCount, Kernel, ProcessId};
use metrics::{
    Counter, CounterState, CounterUnit, HardwareCounters, Incomplete, MetricsSnapshot, ProcessMetrics, Scope,
    Span,
};

use self::kept::Kept;
use crate::processes::{Processes, has_ended};
use crate::{Config, Targets};

/// Between two snapshots while the capture goes on and somebody wants them; figures of processes are taken in as often.
pub(super) const EVERY: Duration = Duration::from_secs(1);

/// The open counters.
enum Counting {
    Threads(ThreadCounters),
    Cpus(CpuCounters),
}

/// Whose figures they are, of the targets with these numbers.
pub(super) fn scope(config: &Config, pids: &[u32]) -> Scope {
    match &config.targets {
        Targets::System => Scope::SystemWide { per_pid: config.per_pid },
        Targets::Pids(_) | Targets::Command(_) => Scope::Pids(pids.to_vec()),
    }
}

/// What figures are made of.
pub(super) struct Figures {
    counting: Counting,
    /// The counters are split by process.
    split: bool,
    scope: Scope,
    /// By process, if that is wanted.
    kept: Kept,
}

impl Figures {
    /// Opens the counters; they count from [`Self::enable`] on, those of a command from its exec on.
    pub(super) fn open(config: &Config, pids: &[u32], cpus: &[u32]) -> Self {
        let specs: &[CounterSpec] = &config.pmu_events;
        let counting = match &config.targets {
            Targets::System => Counting::Cpus(CpuCounters::open(specs, cpus, Start::Disabled)),
            Targets::Command(_) => Counting::Threads(ThreadCounters::open(specs, pids, Start::OnExec)),
            Targets::Pids(_) => Counting::Threads(ThreadCounters::open(specs, pids, Start::Disabled)),
        };
        Self { counting, split: false, scope: scope(config, pids), kept: Kept::default() }
    }

    /// Has the counters split by process.
    pub(super) fn split_by_process(&mut self, kernel: &Kernel) -> Result<(), kernel::Error> {
        self.split = true;
        if let Counting::Cpus(counters) = &self.counting {
            for event in 0..kernel::MAX_SPLIT_EVENTS {
                for (cpu, descriptor) in counters.fds(event) {
                    kernel.split_event(event, cpu, descriptor)?;
                }
            }
        }
        Ok(())
    }

    /// Begins to count; those of a command wait for its exec.
    pub(super) fn enable(&mut self, config: &Config) -> Result<(), events::Error> {
        match &mut self.counting {
            Counting::Threads(_) if matches!(config.targets, Targets::Command(_)) => Ok(()),
            Counting::Threads(counters) => counters.enable(),
            Counting::Cpus(counters) => counters.enable(),
        }
    }

    /// Ends to count.
    pub(super) fn disable(&mut self) -> Result<(), events::Error> {
        match &mut self.counting {
            Counting::Threads(counters) => counters.disable(),
            Counting::Cpus(counters) => counters.disable(),
        }
    }

    /// Counts also on CPUs that have come, and no more on those that have gone; what they counted stays. Gives the CPUs on which
    /// that is to be tried again, and what went wrong with splitting, for one CPU or several. CPUs without counters are told in the
    /// figures.
    pub(super) fn follow_cpus(
        &mut self,
        now: &Present,
        kernel: &mut Kernel,
    ) -> (Vec<u32>, Result<(), kernel::Error>) {
        let Counting::Cpus(counters) = &mut self.counting else { return (Vec::new(), Ok(())) };
        let followed = counters.follow(now);
        let mut split = Ok(());
        if self.split {
            let gone = followed.closed.iter().filter(|cpu| !followed.opened.contains(cpu));
            for &cpu in gone {
                split = split.and(kernel.no_split_events(cpu));
            }
            for &cpu in &followed.opened {
                let of_cpu = |event| Some((event, counters.fd(event, cpu)?));
                let events: Vec<_> = (0..kernel::MAX_SPLIT_EVENTS).filter_map(of_cpu).collect();
                split = split.and(kernel.split_events_again(cpu, &events));
            }
        }
        for (cpu, error) in &followed.missing {
            tracing::debug!(target: "perfagent", cpu, "no counters: {error:?}");
        }
        (followed.missing.into_iter().map(|(cpu, _)| cpu).collect(), split)
    }

    /// Everything so far.
    pub(super) fn snapshot(
        &mut self,
        kernel: &mut Kernel,
        processes: &Processes,
        span: Span,
    ) -> Result<MetricsSnapshot, kernel::Error> {
        let (readings, uncounted_threads, uncounted_cpus) = match &self.counting {
            Counting::Threads(counters) => (counters.read(), counters.uncounted(), 0),
            Counting::Cpus(counters) => (counters.read(), 0, counters.uncounted() as u64),
        };
        let mut by_process = Vec::new();
        if self.are_by_process() {
            self.take_by_process(kernel, processes)?;
            by_process.extend(self.kept.iter().map(|(id, process)| {
                let (name, figures) = (process.name.clone(), &process.figures);
                let counters = counters_of(&readings, &figures.counters);
                ProcessMetrics::new(id.pid, name, figures.scheduling.clone(), counters)
            }));
            let others = self.kept.others().0.clone();
            by_process.push(ProcessMetrics::of_all(others, HardwareCounters::default()));
        } else {
            by_process.push(ProcessMetrics::of_all(kernel.figures()?, HardwareCounters::default()));
        }
        let mut incomplete = incomplete(&kernel.counters(), &kernel.off_cpu_counters());
        incomplete.uncounted_threads = uncounted_threads;
        incomplete.uncounted_cpus = uncounted_cpus;
        incomplete.failed_reads += readings.iter().map(|reading| reading.failed_reads).sum::<u64>();
        incomplete.unlisted_processes = self.kept.others().1;
        if matches!(self.scope, Scope::SystemWide { .. }) {
            // All threads are followed, whosever they are.
            incomplete.lost_processes = 0;
        }
        let counters = HardwareCounters::new(readings.into_iter().map(counter).collect());
        let mut snapshot = MetricsSnapshot::new(self.scope.clone(), span, by_process, counters, incomplete);
        if matches!(self.scope, Scope::SystemWide { per_pid: false }) {
            snapshot.processes_profiled = Some(processes.counts().met);
        }
        Ok(snapshot)
    }

    fn are_by_process(&self) -> bool {
        matches!(self.scope, Scope::SystemWide { per_pid: true })
    }

    /// Takes in what was counted of each process since the last time, if processes are told apart.
    pub(super) fn take_by_process(
        &mut self,
        kernel: &mut Kernel,
        processes: &Processes,
    ) -> Result<(), kernel::Error> {
        if !self.are_by_process() {
            return Ok(());
        }
        let ended = self.kept.ended(|id| has_ended(id.pid));
        let taken = kernel.take_process_figures()?;
        self.kept.add(&taken, |id, next| name(processes, id, next));
        if let Some(ended) = ended {
            self.kept.give_up(ended);
        }
        Ok(())
    }
}

/// What the programs have not counted. Processes are followed by whichever runs where they are made.
pub(crate) fn incomplete(sampler: &KernelCounters, scheduler: &KernelCounters) -> Incomplete {
    let mut incomplete = Incomplete::default();
    incomplete.untracked_threads = scheduler.threads_lost;
    incomplete.lost_switches = scheduler.switches_lost + scheduler.lost_unseen;
    incomplete.unknown_durations = scheduler.came_unseen;
    incomplete.failed_reads = scheduler.reads_failed;
    incomplete.lost_processes = sampler.processes_lost + scheduler.processes_lost;
    incomplete
}

/// The name of a process, of which the next one with its number began then.
fn name(processes: &Processes, id: ProcessId, next_ns: Option<u64>) -> Option<String> {
    let known = processes.name(id.pid, id.start_ns, next_ns).map(str::to_owned);
    // Kernel threads are known to /proc alone.
    known.or_else(|| match next_ns {
        None => process::task::stat(id.pid).ok().map(|stat| stat.comm),
        Some(_) => None,
    })
}

/// The counters of one process, of which `counts` are known.
fn counters_of(readings: &[Reading], counts: &[EventCount]) -> HardwareCounters {
    let counter = |(number, reading): (usize, &Reading)| {
        let count = counts.iter().find(|count| count.event as usize == number);
        let outcome = match (&reading.outcome, count) {
            (CountOutcome::NotAvailable { .. }, _) => counter(reading.clone()).state,
            (_, Some(count)) => CounterState::read(count.value, count.enabled_ns, count.running_ns),
            (_, None) if number >= kernel::MAX_SPLIT_EVENTS => CounterState::not_available(format!(
                "only the first {} events are split by process",
                kernel::MAX_SPLIT_EVENTS
            )),
            (_, None) => CounterState::read(0, 0, 0),
        };
        Counter::new(reading.name.clone(), unit(reading.unit), outcome)
    };
    HardwareCounters::new(readings.iter().enumerate().map(counter).collect())
}

fn counter(reading: Reading) -> Counter {
    let state = match reading.outcome {
        CountOutcome::Counted { value, enabled_ns, running_ns } => {
            CounterState::read(value, enabled_ns, running_ns)
        }
        CountOutcome::NotAvailable { reason } => CounterState::not_available(reason),
        _ => CounterState::not_available("of an unknown kind"),
    };
    Counter::new(reading.name, unit(reading.unit), state)
}

fn unit(unit: Unit) -> CounterUnit {
    if unit == Unit::Nanoseconds { CounterUnit::Nanoseconds } else { CounterUnit::Events }
}
