//! The metrics of a capture at one moment.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use crate::{HardwareCounters, Histogram, LatencyStats};

/// Switch-outs by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextSwitches {
    /// The thread was still runnable.
    pub preempted: u64,
    /// The thread slept, waited or ended.
    pub voluntary: u64,
    /// The thread waited for a disk.
    pub io_wait: u64,
}

impl ContextSwitches {
    /// The sum of all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.preempted.saturating_add(self.voluntary).saturating_add(self.io_wait)
    }

    /// Adds the switches of another.
    pub fn merge(&mut self, other: &Self) {
        self.preempted = self.preempted.saturating_add(other.preempted);
        self.voluntary = self.voluntary.saturating_add(other.voluntary);
        self.io_wait = self.io_wait.saturating_add(other.io_wait);
    }
}

/// What the scheduler did with the threads of a process, or of all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scheduling {
    /// Switch-outs by reason.
    pub context_switches: ContextSwitches,
    /// Moves of a thread to another CPU.
    pub migrations: u64,
    /// Time on a CPU, including intervals without a seen end.
    pub on_cpu_ns_total: u64,
    /// Intervals on a CPU with both ends seen.
    pub on_cpu: Histogram,
    /// Times from runnable to running.
    pub runqueue: Histogram,
}

impl Scheduling {
    /// Adds the values of another.
    pub fn merge(&mut self, other: &Self) {
        self.context_switches.merge(&other.context_switches);
        self.migrations = self.migrations.saturating_add(other.migrations);
        self.on_cpu_ns_total = self.on_cpu_ns_total.saturating_add(other.on_cpu_ns_total);
        self.on_cpu.merge(&other.on_cpu);
        self.runqueue.merge(&other.runqueue);
    }

    /// Whether nothing was seen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Metrics of one process, or of all together.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ProcessMetrics {
    /// The process; none for all together.
    pub pid: Option<u32>,
    /// Its name; none for all together.
    pub comm: Option<String>,
    /// Switch-outs.
    pub sample_count: u64,
    /// Lengths of the intervals on a CPU; none without an interval.
    pub on_cpu: Option<LatencyStats>,
    /// Times from runnable to running; none without an interval.
    pub runqueue: Option<LatencyStats>,
    /// Switch-outs by reason.
    pub context_switches: ContextSwitches,
    /// Moves of a thread to another CPU.
    pub migrations: u64,
    /// Time on a CPU, including intervals without a seen end.
    pub on_cpu_ns_total: u64,
    /// What perf events counted; empty if the counters are not split by process.
    pub counters: HardwareCounters,
    scheduling: Scheduling,
}

impl ProcessMetrics {
    /// Metrics of a process.
    #[must_use]
    pub fn new(
        pid: u32,
        comm: impl Into<String>,
        scheduling: Scheduling,
        counters: HardwareCounters,
    ) -> Self {
        Self { pid: Some(pid), comm: Some(comm.into()), ..Self::of_all(scheduling, counters) }
    }

    /// Metrics of all processes together.
    #[must_use]
    pub fn of_all(scheduling: Scheduling, counters: HardwareCounters) -> Self {
        Self {
            pid: None,
            comm: None,
            sample_count: scheduling.context_switches.total(),
            on_cpu: scheduling.on_cpu.stats(),
            runqueue: scheduling.runqueue.stats(),
            context_switches: scheduling.context_switches,
            migrations: scheduling.migrations,
            on_cpu_ns_total: scheduling.on_cpu_ns_total,
            counters,
            scheduling,
        }
    }

    /// The histograms and sums behind these metrics, for merging with those of other processes or captures.
    #[must_use]
    pub fn scheduling(&self) -> &Scheduling {
        &self.scheduling
    }

    /// Whether nothing was seen or counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let counted = |state: &crate::CounterState| state.scaled_value().is_some_and(|value| value > 0);
        self.scheduling.is_empty() && !self.counters.events.iter().any(|counter| counted(&counter.state))
    }
}

/// What is missing from the metrics. All zero: nothing is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Incomplete {
    /// Threads whose switches were not followed, for lack of memory.
    pub untracked_threads: u64,
    /// Switches that were not counted.
    pub lost_switches: u64,
    /// Counted switches with an unknown time slice and wait, because the kernel did not report when the thread came to
    /// its CPU.
    pub unknown_durations: u64,
    /// Durations in count, sum, minimum and maximum but in no percentile, for lack of a bucket. A snapshot adds the
    /// number that its histograms know.
    pub unplaced_durations: u64,
    /// Threads whose counters could not be opened: their part is missing.
    pub uncounted_threads: u64,
    /// CPUs whose counters could not be opened or were lost: their part is missing.
    pub uncounted_cpus: u64,
    /// Failed reads of counters.
    pub failed_reads: u64,
    /// Children of targets that were not followed, for lack of memory: their part is missing.
    pub lost_processes: u64,
    /// Ended processes whose metrics are in the sum only, because the list was full.
    pub unlisted_processes: u64,
}

impl Incomplete {
    /// Whether anything is missing.
    #[must_use]
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}

/// What a snapshot covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// These processes and their descendants, by the PIDs that the user gave.
    Pids(Vec<u32>),
    /// All processes.
    SystemWide {
        /// Whether reports show each process.
        per_pid: bool,
    },
}

/// Start and length of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Wall-clock time of its start.
    pub start: SystemTime,
    /// Its length so far.
    pub duration: Duration,
}

/// All metrics at one moment.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MetricsSnapshot {
    /// When it was taken: start of the capture plus `duration`.
    pub timestamp: SystemTime,
    /// Wall-clock time of the start of the capture.
    pub start: SystemTime,
    /// Length of the capture so far.
    pub duration: Duration,
    /// Whether all processes are covered.
    pub system_wide: bool,
    /// Whether reports show each process.
    pub per_pid: bool,
    /// The PIDs that the user gave; empty if system-wide.
    pub pids: Vec<u32>,
    /// The number of processes, if known: with `per_pid` those with metrics, else all that existed.
    pub processes_profiled: Option<u64>,
    /// Metrics by PID; for a reused PID, those of its last process.
    pub processes: BTreeMap<u32, ProcessMetrics>,
    /// Metrics of ended processes whose PID another process got later.
    pub earlier: Vec<ProcessMetrics>,
    /// Switch-outs of all processes.
    pub total_samples: u64,
    /// Metrics of all processes, from merged histograms.
    pub aggregate: ProcessMetrics,
    /// What is missing.
    pub incomplete: Incomplete,
}

impl MetricsSnapshot {
    /// Combines the metrics of `processes`. Processes with the same PID are kept apart; they come in the order in which
    /// they had it. A process without a PID is in the sum only. `counters` are those of the whole capture, which need
    /// not be split by process.
    #[must_use]
    pub fn new(
        scope: Scope,
        span: Span,
        processes: impl IntoIterator<Item = ProcessMetrics>,
        counters: HardwareCounters,
        mut incomplete: Incomplete,
    ) -> Self {
        let mut all = Scheduling::default();
        let (mut by_pid, mut earlier) = (BTreeMap::new(), Vec::new());
        for process in processes {
            all.merge(&process.scheduling);
            let Some(pid) = process.pid else { continue };
            earlier.extend(by_pid.insert(pid, process));
        }
        let unplaced = all.on_cpu.unplaced().saturating_add(all.runqueue.unplaced());
        incomplete.unplaced_durations = incomplete.unplaced_durations.saturating_add(unplaced);
        let (system_wide, per_pid, pids) = match scope {
            Scope::Pids(pids) => (false, false, pids),
            Scope::SystemWide { per_pid } => (true, per_pid, Vec::new()),
        };
        let aggregate = ProcessMetrics::of_all(all, counters);
        Self {
            timestamp: span.start.checked_add(span.duration).unwrap_or(span.start),
            start: span.start,
            duration: span.duration,
            system_wide,
            per_pid,
            pids,
            processes_profiled: (system_wide && per_pid)
                .then(|| (by_pid.len() + earlier.len()) as u64 + incomplete.unlisted_processes),
            processes: by_pid,
            earlier,
            total_samples: aggregate.sample_count,
            aggregate,
            incomplete,
        }
    }

    /// The processes by descending time on a CPU, including those whose PID was reused.
    #[must_use]
    pub fn by_on_cpu_time(&self) -> Vec<&ProcessMetrics> {
        let mut processes: Vec<_> = self.processes.values().chain(&self.earlier).collect();
        processes.sort_by_key(|process| (std::cmp::Reverse(process.on_cpu_ns_total), process.pid));
        processes
    }
}

/// A process and snapshots of it with round numbers.
#[cfg(test)]
pub(crate) mod fixture {
    use super::*;
    use crate::{Counter, CounterState, CounterUnit};

    fn counters() -> HardwareCounters {
        let event = |name, value| Counter::new(name, CounterUnit::Events, CounterState::read(value, 9, 9));
        let (cycles, instructions) = (1_234_567_890, 2_345_678_901);
        HardwareCounters::new(vec![
            event("cycles", cycles),
            event("instructions", instructions),
            event("cache-misses", 34_567),
        ])
    }

    pub(crate) fn process(pid: u32) -> ProcessMetrics {
        let mut on_cpu = Histogram::from_parts(3, 8_025_000, 4_000, 8_020_000, &[]);
        for slice_ns in [4_000, 4_000, 8_020_000] {
            on_cpu.add_bucket(crate::bucket_of(slice_ns), 1);
        }
        let scheduling = Scheduling {
            context_switches: ContextSwitches { preempted: 300, voluntary: 840, io_wait: 60 },
            migrations: 7,
            on_cpu_ns_total: 8_025_000,
            on_cpu,
            runqueue: Histogram::new(),
        };
        ProcessMetrics::new(pid, "worker", scheduling, HardwareCounters::default())
    }

    pub(crate) fn snapshot(scope: Scope, processes: Vec<ProcessMetrics>) -> MetricsSnapshot {
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let span = Span { start, duration: Duration::from_secs(10) };
        MetricsSnapshot::new(scope, span, processes, counters(), Incomplete::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, slices_ns: &[u64]) -> ProcessMetrics {
        let scheduling = Scheduling {
            context_switches: ContextSwitches { voluntary: slices_ns.len() as u64, ..Default::default() },
            migrations: 1,
            on_cpu_ns_total: slices_ns.iter().sum(),
            on_cpu: slices_ns.iter().copied().collect(),
            runqueue: Histogram::new(),
        };
        ProcessMetrics::new(pid, format!("p{pid}"), scheduling, HardwareCounters::default())
    }

    fn snapshot(processes: Vec<ProcessMetrics>) -> MetricsSnapshot {
        let span = Span { start: SystemTime::UNIX_EPOCH, duration: Duration::from_secs(10) };
        let scope = Scope::SystemWide { per_pid: true };
        MetricsSnapshot::new(scope, span, processes, HardwareCounters::default(), Incomplete::default())
    }

    #[test]
    fn the_aggregate_comes_from_merged_histograms() {
        let fast: Vec<u64> = vec![10; 99];
        let snapshot = snapshot(vec![process(1, &fast), process(2, &[50_000])]);
        let on_cpu = snapshot.aggregate.on_cpu.unwrap();
        assert_eq!((on_cpu.count, on_cpu.p50, on_cpu.p99, on_cpu.p999), (100, 10, 10, 50_000));
        assert_eq!(snapshot.total_samples, 100);
        assert_eq!(snapshot.aggregate.migrations, 2);
        assert_eq!(snapshot.aggregate.runqueue, None);
        assert_eq!(snapshot.timestamp, SystemTime::UNIX_EPOCH + Duration::from_secs(10));
        let order: Vec<_> = snapshot.by_on_cpu_time().iter().map(|process| process.pid).collect();
        assert_eq!(order, [Some(2), Some(1)]);
    }

    #[test]
    fn processes_with_the_same_pid_are_kept_apart() {
        let others = ProcessMetrics::of_all(process(9, &[7]).scheduling, HardwareCounters::default());
        let snapshot = snapshot(vec![process(1, &[10, 20]), process(1, &[30]), others]);
        assert_eq!(snapshot.processes[&1].sample_count, 1);
        assert_eq!(snapshot.earlier[0].sample_count, 2);
        assert_eq!(snapshot.by_on_cpu_time().len(), 2, "a process without a PID is in no list");
        assert_eq!((snapshot.total_samples, snapshot.processes_profiled), (4, Some(2)));
    }

    #[test]
    fn durations_without_a_bucket_make_it_incomplete() {
        let runqueue = Histogram::from_parts(5, 50, 1, 20, &[0, 1]);
        let scheduling = Scheduling { runqueue, ..Scheduling::default() };
        let process = ProcessMetrics::new(1, "p", scheduling, HardwareCounters::default());
        let snapshot = snapshot(vec![process]);
        assert_eq!(snapshot.incomplete.unplaced_durations, 4);
        assert!(snapshot.incomplete.any());
    }
}
