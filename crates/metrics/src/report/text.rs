//! The text report. Labels, their order and their indentation are stable.

use std::fmt::Write;

use profile::visible;

use super::missing;
use crate::{
    ContextSwitches, Counter, CounterState, HardwareCounters, LatencyStats, MetricsSnapshot, ProcessMetrics,
};

/// Events with their own label, in the order of the report.
const LABELS: [(&str, &str); 3] = [
    ("cycles", "Total Cycles:"),
    ("instructions", "Total Instructions:"),
    ("cache-misses", "Total Cache Misses:"),
];

/// The snapshot as text, ending with a newline.
#[must_use]
pub fn text_report(snapshot: &MetricsSnapshot) -> String {
    let mut text = Text(String::new());
    let scope = match (snapshot.system_wide, snapshot.per_pid) {
        (true, true) => "System-Wide, Per-PID".to_owned(),
        (true, false) => "System-Wide".to_owned(),
        (false, _) => {
            let pids: Vec<_> = snapshot.pids.iter().map(u32::to_string).collect();
            format!("PID: {}", pids.join(", "))
        }
    };
    text.line(format_args!("=== PMU Metrics ({scope}) ==="));
    let nothing =
        snapshot.aggregate.is_empty() && snapshot.by_on_cpu_time().into_iter().all(ProcessMetrics::is_empty);
    if nothing {
        text.line(format_args!("No PMU metrics collected"));
    } else {
        text.body(snapshot);
    }
    text.incomplete(snapshot);
    text.0
}

struct Text(String);

impl Text {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.0.write_fmt(line);
        self.0.push('\n');
    }

    fn heading(&mut self, heading: &str) {
        self.line(format_args!("\n{heading}"));
    }

    fn body(&mut self, snapshot: &MetricsSnapshot) {
        let samples = snapshot.total_samples;
        match (snapshot.system_wide, snapshot.per_pid) {
            (false, _) => self.line(format_args!("Samples: {samples}")),
            (true, false) => {
                match snapshot.processes_profiled {
                    Some(processes) => self.line(format_args!("Processes profiled: {processes}")),
                    None => self.line(format_args!("Processes profiled: unknown")),
                }
                self.line(format_args!("Total samples: {samples}"));
            }
            (true, true) => {
                let processes = snapshot.processes_profiled.unwrap_or_default();
                self.line(format_args!("Profiled {processes} processes"));
                for process in snapshot.by_on_cpu_time() {
                    let comm = visible(process.comm.as_deref().unwrap_or_default());
                    let pid = process.pid.unwrap_or_default();
                    self.heading(&format!("--- PID {pid} ({comm}) ---"));
                    self.line(format_args!("Samples: {}", process.sample_count));
                    self.sections(process, false);
                }
                self.heading("--- All processes ---");
                self.line(format_args!("Total samples: {samples}"));
            }
        }
        self.sections(&snapshot.aggregate, snapshot.system_wide);
    }

    fn sections(&mut self, process: &ProcessMetrics, aggregate: bool) {
        self.latencies("On-CPU Time (time slice per context switch):", process.on_cpu.as_ref());
        self.latencies("Runqueue Latency (time waiting for CPU):", process.runqueue.as_ref());
        let heading =
            if aggregate { "Context Switch Reasons (aggregate):" } else { "Context Switch Reasons:" };
        self.switches(heading, &process.context_switches);
        self.hardware(&process.counters);
        self.other_counters(&process.counters);
    }

    fn latencies(&mut self, heading: &str, stats: Option<&LatencyStats>) {
        self.heading(heading);
        let Some(stats) = stats else { return self.line(format_args!("  no data")) };
        let lines = [
            ("Min:", stats.min as f64),
            ("Max:", stats.max as f64),
            ("Mean:", stats.mean),
            ("P50:", stats.p50 as f64),
            ("P95:", stats.p95 as f64),
            ("P99:", stats.p99 as f64),
            ("P99.9:", stats.p999 as f64),
        ];
        for (label, ns) in lines {
            self.line(format_args!("  {label:<8}{:.3} ms", ns / 1e6));
        }
    }

    fn switches(&mut self, heading: &str, switches: &ContextSwitches) {
        self.heading(heading);
        let total = switches.total();
        if total == 0 {
            return self.line(format_args!("  no data"));
        }
        let reasons = [
            ("Preempted (running):", switches.preempted),
            ("Voluntary (sleep/mutex):", switches.voluntary),
            ("I/O Wait (D state):", switches.io_wait),
        ];
        for (label, times) in reasons {
            let percent = 100.0 * times as f64 / total as f64;
            self.line(format_args!("  {label:<25}{percent:.1}%  ({times} times)"));
        }
    }

    fn hardware(&mut self, counters: &HardwareCounters) {
        let asked_for: Vec<_> =
            LABELS.iter().filter_map(|(name, label)| Some((*label, counters.get(name)?))).collect();
        let reason = |counter: &Counter| match &counter.state {
            CounterState::NotAvailable { reason } => Some(visible(reason).into_owned()),
            _ => None,
        };
        let reasons: Vec<_> = asked_for.iter().filter_map(|(_, counter)| reason(counter)).collect();
        match reasons.first() {
            _ if asked_for.is_empty() => return,
            Some(reason) if reasons.len() == asked_for.len() => {
                return self.heading(&format!("Hardware Counters: not available ({reason})"));
            }
            _ => self.heading("Hardware Counters:"),
        }
        for (label, counter) in asked_for {
            self.line(format_args!("  {label:<20}{}", value(counter)));
        }
        if let Some(ratio) = counters.ipc() {
            self.line(format_args!("  {:<20}{ratio:.3}", "IPC (Instr/Cycle):"));
        }
        if let Some(ratio) = counters.cache_misses_per_1k() {
            self.line(format_args!("  {:<20}{ratio:.3}", "Cache Misses/1K:"));
        }
    }

    fn other_counters(&mut self, counters: &HardwareCounters) {
        let others = counters.events.iter().filter(|counter| !LABELS.iter().any(|(n, _)| *n == counter.name));
        let lines: Vec<_> =
            others.map(|counter| format!("  {}: {}", visible(&counter.name), value(counter))).collect();
        if !lines.is_empty() {
            self.heading("Counters:");
            lines.iter().for_each(|line| self.line(format_args!("{line}")));
        }
    }

    fn incomplete(&mut self, snapshot: &MetricsSnapshot) {
        let missing = missing(&snapshot.incomplete);
        let parts: Vec<_> = missing
            .iter()
            .filter(|(_, number, _)| *number > 0)
            .map(|(_, number, words)| format!("{number} {words}"))
            .collect();
        if !parts.is_empty() {
            self.heading(&format!("Incomplete: {}", parts.join(", ")));
        }
    }
}

/// The value with its unit and the measured part, or the reason why there is none.
fn value(counter: &Counter) -> String {
    if let CounterState::NotAvailable { reason } = &counter.state {
        return format!("not available ({})", visible(reason));
    }
    let Some(value) = counter.state.scaled_value() else { return "not counted".to_owned() };
    let mut text = value.to_string();
    if !counter.unit.name().is_empty() {
        text = format!("{text} {}", counter.unit.name());
    }
    if let Some(percent) = counter.state.measured_pct() {
        text = format!("{text} (scaled, {percent:.0}% measured)");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::fixture;
    use crate::{CounterUnit, Incomplete, Scope};

    fn lines_after<'a>(report: &'a str, heading: &str) -> Vec<&'a str> {
        let lines = report.lines().skip_while(|line| *line != heading).skip(1);
        lines.take_while(|line| !line.is_empty()).collect()
    }

    #[test]
    fn a_process_with_all_counters() {
        let snapshot = fixture::snapshot(Scope::Pids(vec![4711]), vec![fixture::process(4711)]);
        assert_eq!(
            text_report(&snapshot),
            "\
=== PMU Metrics (PID: 4711) ===
Samples: 1200

On-CPU Time (time slice per context switch):
  Min:    0.004 ms
  Max:    8.020 ms
  Mean:   2.675 ms
  P50:    0.004 ms
  P95:    8.020 ms
  P99:    8.020 ms
  P99.9:  8.020 ms

Runqueue Latency (time waiting for CPU):
  no data

Context Switch Reasons:
  Preempted (running):     25.0%  (300 times)
  Voluntary (sleep/mutex): 70.0%  (840 times)
  I/O Wait (D state):      5.0%  (60 times)

Hardware Counters:
  Total Cycles:       1234567890
  Total Instructions: 2345678901
  Total Cache Misses: 34567
  IPC (Instr/Cycle):  1.900
  Cache Misses/1K:    0.015
"
        );
    }

    #[test]
    fn titles_and_counts_of_each_scope() {
        let processes = || vec![fixture::process(10), fixture::process(11)];
        let two = text_report(&fixture::snapshot(Scope::Pids(vec![10, 11]), processes()));
        assert!(two.starts_with("=== PMU Metrics (PID: 10, 11) ===\nSamples: 2400\n\nOn-CPU"), "{two}");
        assert!(!two.contains("---"));
        let mut all = fixture::snapshot(Scope::SystemWide { per_pid: false }, processes());
        assert!(text_report(&all).contains("\nProcesses profiled: unknown\n"));
        all.processes_profiled = Some(211);
        let all = text_report(&all);
        let head =
            "=== PMU Metrics (System-Wide) ===\nProcesses profiled: 211\nTotal samples: 2400\n\nOn-CPU";
        assert!(all.starts_with(head), "{all}");
        assert!(all.contains("\n\nContext Switch Reasons (aggregate):\n  Preempted"));
        assert!(!all.contains("--- PID") && !all.contains("Context Switch Reasons:\n"));
    }

    #[test]
    fn each_process_and_then_all() {
        let mut idle = fixture::process(7);
        idle.comm = Some("evil\x1b[2J\n".to_owned());
        idle.on_cpu_ns_total = 1;
        let processes = vec![idle, fixture::process(9)];
        let report = text_report(&fixture::snapshot(Scope::SystemWide { per_pid: true }, processes));
        let marks: Vec<_> = report.lines().filter(|line| line.starts_with("---")).collect();
        assert_eq!(
            marks,
            ["--- PID 9 (worker) ---", "--- PID 7 (evil\\u{1b}[2J\\n) ---", "--- All processes ---"]
        );
        let head = "=== PMU Metrics (System-Wide, Per-PID) ===\nProfiled 2 processes\n\n--- PID 9 (worker) ---\nSamples: 1200\n";
        assert!(report.starts_with(head), "{report}");
        assert_eq!(report.matches("\nContext Switch Reasons:\n").count(), 2);
        assert_eq!(report.matches("\nContext Switch Reasons (aggregate):\n").count(), 1);
        assert_eq!(report.matches("\nTotal samples: 2400\n").count(), 1);
    }

    #[test]
    fn counters_may_be_missing_scaled_or_unlabelled() {
        let mut snapshot = fixture::snapshot(Scope::Pids(vec![1]), vec![fixture::process(1)]);
        let mut report = |counters: Vec<Counter>| {
            snapshot.aggregate.counters = HardwareCounters::new(counters);
            text_report(&snapshot)
        };
        let event = |name: &str, state| Counter::new(name, CounterUnit::Events, state);
        let missing = || CounterState::not_available("ENOENT: no such event");
        let none = report(vec![event("cycles", missing()), event("instructions", missing())]);
        assert!(none.ends_with("\n\nHardware Counters: not available (ENOENT: no such event)\n"), "{none}");
        let some = report(vec![
            event("cache-misses", CounterState::NotCounted),
            event("instructions", missing()),
            event("cycles", CounterState::read(1000, 3, 1)),
            event("branches", missing()),
            Counter::new("task-clock", CounterUnit::Nanoseconds, CounterState::read(5, 9, 9)),
            event("page-faults", CounterState::read(10, 100, 50)),
        ]);
        assert_eq!(
            lines_after(&some, "Hardware Counters:"),
            [
                "  Total Cycles:       3000 (scaled, 33% measured)",
                "  Total Instructions: not available (ENOENT: no such event)",
                "  Total Cache Misses: not counted",
            ]
        );
        assert_eq!(
            lines_after(&some, "Counters:"),
            [
                "  branches: not available (ENOENT: no such event)",
                "  task-clock: 5 ns",
                "  page-faults: 20 (scaled, 50% measured)",
            ]
        );
        let software = report(vec![event("page-faults", CounterState::read(10, 5, 5))]);
        assert!(!software.contains("Hardware") && software.ends_with("\n\nCounters:\n  page-faults: 10\n"));
        assert!(report(Vec::new()).ends_with("\n  I/O Wait (D state):      5.0%  (60 times)\n"));
    }

    #[test]
    fn an_empty_report_and_a_report_with_losses() {
        let mut snapshot = fixture::snapshot(Scope::Pids(vec![3]), Vec::new());
        let missing = CounterState::not_available("ENOENT");
        snapshot.aggregate.counters =
            HardwareCounters::new(vec![Counter::new("cycles", CounterUnit::Events, missing)]);
        assert_eq!(text_report(&snapshot), "=== PMU Metrics (PID: 3) ===\nNo PMU metrics collected\n");
        snapshot.incomplete =
            Incomplete { untracked_threads: 3, uncounted_threads: 1, ..Incomplete::default() };
        let last = "\n\nIncomplete: 3 threads not tracked, 1 threads without counters\n";
        assert!(text_report(&snapshot).ends_with(last));
        let mut empty = fixture::process(3);
        empty.on_cpu = None;
        empty.context_switches = ContextSwitches::default();
        snapshot.aggregate = empty;
        let report = text_report(&snapshot);
        for heading in ["On-CPU Time (time slice per context switch):", "Context Switch Reasons:"] {
            assert_eq!(lines_after(&report, heading), ["  no data"]);
        }
        assert!(report.ends_with(last));
    }
}
