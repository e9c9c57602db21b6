//! Scheduler statistics and counters of a capture, put together as a snapshot.

mod by_process;

use std::time::Duration;

use events::counting::{CountOutcome, CounterSpec, CpuCounters, Reading, Start, ThreadCounters, Unit};
use events::{Followed, Present};
use kernel::{Counters as KernelCounters, EventCount, Kernel, ProcessId};
use metrics::{
    Counter, CounterState, CounterUnit, HardwareCounters, Incomplete, MetricsSnapshot, ProcessMetrics, Scope,
    Span,
};

use self::by_process::ByProcess;
use super::source::{Opening, Source};
use crate::failure::load_error;
use crate::processes::{Processes, has_ended};
use crate::{Config, Error, Targets, Warning, WarningKind};

/// Time between two snapshots while the capture goes on and somebody wants them. Statistics of processes are taken as often.
pub(crate) const SNAPSHOT_INTERVAL: Duration = Duration::from_secs(1);

/// The open counters.
enum Counting {
    Threads(ThreadCounters),
    Cpus(CpuCounters),
}

/// Whose statistics they are, of the targets with these numbers.
pub(crate) fn scope(config: &Config, pids: &[u32]) -> Scope {
    match &config.targets {
        Targets::System => Scope::SystemWide { per_pid: config.per_pid },
        Targets::Pids(_) | Targets::Command(_) => Scope::Pids(pids.to_vec()),
    }
}

/// What snapshots are made of.
pub(crate) struct SchedStats {
    specs: Vec<CounterSpec>,
    targets: Targets,
    per_pid: bool,
    no_children: bool,
    counting: Option<Counting>,
    scope: Scope,
    /// Statistics of each process, if they are wanted.
    by_process: ByProcess,
    warnings: Vec<Warning>,
}

impl SchedStats {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            specs: config.pmu_events.clone(),
            targets: config.targets.clone(),
            per_pid: config.per_pid,
            no_children: config.no_children,
            counting: None,
            scope: scope(config, &[]),
            by_process: ByProcess::default(),
            warnings: Vec::new(),
        }
    }

    fn open_on_threads(&self, pids: &[u32], start: Start) -> Counting {
        let open =
            if self.no_children { ThreadCounters::open_without_children } else { ThreadCounters::open };
        Counting::Threads(open(&self.specs, pids, start))
    }

    fn warn(&mut self, message: String) {
        self.warnings.push(Warning::bare(WarningKind::Metrics, message));
    }

    /// All statistics so far.
    pub(crate) fn snapshot(
        &mut self,
        kernel: &mut Kernel,
        processes: &Processes,
        span: Span,
    ) -> Result<MetricsSnapshot, kernel::Error> {
        let (readings, uncounted_threads, uncounted_cpus) = match &self.counting {
            Some(Counting::Threads(counters)) => (counters.read(), counters.uncounted(), 0),
            Some(Counting::Cpus(counters)) => (counters.read(), 0, counters.uncounted() as u64),
            None => (Vec::new(), 0, 0),
        };
        let mut processes_metrics = Vec::new();
        if self.are_by_process() {
            self.take_by_process(kernel, processes)?;
            processes_metrics.extend(self.by_process.iter().map(|(id, process)| {
                let (name, figures) = (process.name.clone(), &process.figures);
                let counters = counters_of(&readings, &figures.counters);
                ProcessMetrics::new(id.pid, name, figures.scheduling.clone(), counters)
            }));
            let others = self.by_process.others().0.clone();
            processes_metrics.push(ProcessMetrics::of_all(others, HardwareCounters::default()));
        } else {
            processes_metrics
                .push(ProcessMetrics::of_all(kernel.sched_stats()?, HardwareCounters::default()));
        }
        let mut incomplete = incomplete(&kernel.counters(), &kernel.off_cpu_counters());
        incomplete.uncounted_threads = uncounted_threads;
        incomplete.uncounted_cpus = uncounted_cpus;
        incomplete.failed_reads += readings.iter().map(|reading| reading.failed_reads).sum::<u64>();
        incomplete.unlisted_processes = self.by_process.others().1;
        if matches!(self.scope, Scope::SystemWide { .. }) {
            // All threads are followed, so none is lost with its process.
            incomplete.lost_processes = 0;
        }
        let counters = HardwareCounters::new(readings.into_iter().map(counter).collect());
        let mut snapshot =
            MetricsSnapshot::new(self.scope.clone(), span, processes_metrics, counters, incomplete);
        if matches!(self.scope, Scope::SystemWide { per_pid: false }) {
            snapshot.processes_profiled = Some(processes.counts().met);
        }
        Ok(snapshot)
    }

    fn are_by_process(&self) -> bool {
        matches!(self.scope, Scope::SystemWide { per_pid: true })
    }

    /// Takes the statistics of each process since the last call, if they are kept by process.
    pub(crate) fn take_by_process(
        &mut self,
        kernel: &mut Kernel,
        processes: &Processes,
    ) -> Result<(), kernel::Error> {
        if !self.are_by_process() {
            return Ok(());
        }
        let ended = self.by_process.ended(|id| has_ended(id.pid));
        let taken = kernel.take_process_stats()?;
        self.by_process.add(&taken, |id, next| name(processes, id, next));
        if let Some(ended) = ended {
            self.by_process.merge_ended(ended);
        }
        Ok(())
    }
}

impl Source for SchedStats {
    /// Opens the counters; those of a command count from its exec on.
    fn open(&mut self, opening: &mut Opening<'_>) -> Result<(), Error> {
        let counting = match &self.targets {
            Targets::System => Counting::Cpus(CpuCounters::open(&self.specs, opening.cpus, Start::Disabled)),
            Targets::Command(_) => self.open_on_threads(opening.pids, Start::OnExec),
            Targets::Pids(_) => self.open_on_threads(opening.pids, Start::Disabled),
        };
        if let Scope::Pids(pids) = &mut self.scope {
            *pids = opening.targets.to_vec();
        }
        if let Counting::Cpus(counters) = &counting
            && self.per_pid
        {
            for event in 0..kernel::MAX_SPLIT_EVENTS {
                for (cpu, descriptor) in counters.fds(event) {
                    opening.kernel.split_event(event, cpu, descriptor).map_err(load_error)?;
                }
            }
        }
        self.counting = Some(counting);
        Ok(())
    }

    fn enable(&mut self, _: &mut Kernel, _: u64) -> Result<(), Error> {
        let enabled = match &mut self.counting {
            Some(Counting::Threads(_)) if matches!(self.targets, Targets::Command(_)) => Ok(()),
            Some(Counting::Threads(counters)) => counters.enable(),
            Some(Counting::Cpus(counters)) => counters.enable(),
            None => Ok(()),
        };
        // The capture goes on without them.
        if let Err(error) = enabled {
            self.warn(error.to_string());
        }
        Ok(())
    }

    /// Counts on the threads of one more process.
    fn add_target(&mut self, kernel: &mut Kernel, pid: u32, now_ns: u64) -> Result<(), Error> {
        if let Scope::Pids(pids) = &mut self.scope {
            pids.push(pid);
        }
        self.add_descendant(kernel, pid, now_ns)
    }

    fn add_descendant(&mut self, _: &mut Kernel, pid: u32, _: u64) -> Result<(), Error> {
        if let Some(Counting::Threads(counters)) = &mut self.counting
            && let Err(error) = counters.add(pid)
        {
            self.warn(error.to_string());
        }
        Ok(())
    }

    /// Counts on CPUs that came online, and no longer on those that went. What was counted there stays. The statistics tell which CPUs
    /// have no counters.
    fn follow_cpus(&mut self, kernel: &mut Kernel, now: &Present) -> Followed {
        let Some(Counting::Cpus(counters)) = &mut self.counting else { return Followed::default() };
        let mut followed = counters.follow(now);
        let mut split = Ok(());
        if self.per_pid {
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
        for (cpu, error) in &mut followed.missing {
            tracing::debug!(target: "perfagent", cpu, "no counters: {error:?}");
            *error = None;
        }
        if let Err(error) = split {
            self.warn(error.to_string());
        }
        followed
    }

    fn disable(&mut self, _: &mut Kernel, _: u64) -> Result<(), Error> {
        let disabled = match &mut self.counting {
            Some(Counting::Threads(counters)) => counters.disable(),
            Some(Counting::Cpus(counters)) => counters.disable(),
            None => Ok(()),
        };
        if let Err(error) = disabled {
            self.warn(error.to_string());
        }
        Ok(())
    }

    fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }
}

/// What the programs could not count. Both of them follow processes.
pub(crate) fn incomplete(sampler: &KernelCounters, scheduler: &KernelCounters) -> Incomplete {
    let mut incomplete = Incomplete::default();
    incomplete.untracked_threads = scheduler.threads_lost;
    incomplete.lost_switches = scheduler.switches_lost + scheduler.lost_unseen;
    incomplete.unknown_durations = scheduler.came_unseen;
    incomplete.failed_reads = scheduler.reads_failed;
    incomplete.lost_processes = sampler.processes_lost + scheduler.processes_lost;
    incomplete
}

/// The name of a process. `next_ns`: when the next process with its number began.
fn name(processes: &Processes, id: ProcessId, next_ns: Option<u64>) -> Option<String> {
    let known = processes.histories().name(id.pid, id.start_ns, next_ns).map(str::to_owned);
    // Kernel threads are known only in /proc.
    known.or_else(|| match next_ns {
        None => process::task::stat(id.pid).ok().map(|stat| stat.comm),
        Some(_) => None,
    })
}

/// The counters of one process; `counts` are its share.
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
