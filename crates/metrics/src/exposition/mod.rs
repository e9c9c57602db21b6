//! The health of the profiler and the figures of a capture in the formats that monitoring systems read.

mod health;
mod shown;
mod writer;

pub use health::{DebuginfodHealth, Health, ModeHealth, SymbolizeHealth};
pub use shown::Exposer;
pub use writer::Exposition;

use shown::Shown;
use writer::{Kind, Unit, Writer};

use crate::{HardwareCounters, Incomplete, MetricsSnapshot};

/// Writes what `health` says of the profiler and, where scheduler metrics are taken, what `snapshot` says; its switches
/// are samples of the mode `pmu`. Families without a value are left out. No label holds a process, command or path.
#[must_use]
pub fn expose(exposition: Exposition, health: &Health, snapshot: Option<&MetricsSnapshot>) -> String {
    expose_beside(&mut Shown::default(), exposition, health, snapshot)
}

fn expose_beside(
    shown: &mut Shown,
    exposition: Exposition,
    health: &Health,
    snapshot: Option<&MetricsSnapshot>,
) -> String {
    let mut writer = Writer::new(exposition, shown);
    of_health(&mut writer, health, snapshot);
    if let Some(snapshot) = snapshot {
        of_snapshot(&mut writer, snapshot);
    }
    writer.finish()
}

/// The mode of a snapshot.
const PMU: &str = "pmu";

/// What a snapshot lacks for good. The rest of what is incomplete may be made up for, which a counter must not show.
fn lost(incomplete: &Incomplete) -> [(&'static str, u64); 3] {
    [
        ("untracked_threads", incomplete.untracked_threads),
        ("lost_switches", incomplete.lost_switches),
        ("lost_processes", incomplete.lost_processes),
    ]
}

fn of_health(writer: &mut Writer<'_>, health: &Health, snapshot: Option<&MetricsSnapshot>) {
    writer.info("perf_agent_build", "The running profiler.", &[("version", &health.version)]);
    writer.family("perf_agent_samples", Kind::Counter, Unit::None, "Samples recorded.", |samples| {
        health.modes.iter().for_each(|mode| samples.put(&[("mode", &mode.mode)], mode.samples));
        snapshot.iter().for_each(|snapshot| samples.put(&[("mode", PMU)], snapshot.total_samples));
    });
    writer.family("perf_agent_lost", Kind::Counter, Unit::None, "Samples lost.", |samples| {
        for mode in &health.modes {
            for (cause, lost) in &mode.lost {
                samples.put(&[("mode", &mode.mode), ("cause", cause)], *lost);
            }
        }
        for (cause, lost) in snapshot.into_iter().flat_map(|snapshot| lost(&snapshot.incomplete)) {
            samples.put(&[("mode", PMU), ("cause", cause)], lost);
        }
    });
    writer.family("perf_agent_walks", Kind::Counter, Unit::None, "Walks of user stacks by end.", |samples| {
        for mode in &health.modes {
            for (cause, walks) in &mode.walks {
                samples.put(&[("mode", &mode.mode), ("cause", cause)], *walks);
            }
        }
    });
    let help = "Distinct frames by whether a name was found.";
    writer.family("perf_agent_frames", Kind::Counter, Unit::None, help, |samples| {
        if !health.modes.is_empty() {
            samples.put(&[("symbolized", "true")], health.frames_symbolized);
            samples.put(&[("symbolized", "false")], health.frames_unsymbolized);
        }
    });
    if let Some(symbolize) = &health.symbolize {
        of_symbolize(writer, symbolize);
    }
    if let Some(debuginfod) = &health.debuginfod {
        let help = "Fetches from debuginfod servers.";
        writer.family("perf_agent_debuginfod_fetches", Kind::Counter, Unit::None, help, |samples| {
            debuginfod.fetches.iter().for_each(|(result, n)| samples.put(&[("result", result)], *n));
        });
        let help = "Bytes fetched from debuginfod servers.";
        writer.family("perf_agent_debuginfod_bytes", Kind::Counter, Unit::Bytes, help, |samples| {
            samples.put(&[], debuginfod.bytes);
        });
    }
    let help = "CPU time of the profiler.";
    writer.family("perf_agent_cpu_seconds", Kind::Counter, Unit::Seconds, help, |samples| {
        samples.put(&[], health.agent_cpu.as_secs_f64());
    });
    let help = "Time in BPF programs of the profiler.";
    writer.family("perf_agent_bpf_seconds", Kind::Counter, Unit::Seconds, help, |samples| {
        for (program, time) in &health.bpf_cpu {
            samples.put(&[("program", program)], time.as_secs_f64());
        }
    });
    let help = "Resident memory of the profiler.";
    writer.family("perf_agent_resident_bytes", Kind::Gauge, Unit::Bytes, help, |samples| {
        health.resident_bytes.iter().for_each(|&bytes| samples.put(&[], bytes));
    });
    let help = "Kernel memory of the maps of the BPF programs.";
    writer.family("perf_agent_bpf_memory_bytes", Kind::Gauge, Unit::Bytes, help, |samples| {
        health.bpf_memory_bytes.iter().for_each(|&bytes| samples.put(&[], bytes));
    });
}

fn of_symbolize(writer: &mut Writer<'_>, symbolize: &SymbolizeHealth) {
    let counters = [
        ("perf_agent_symbolize_kernel_batches", "Batches of kernel addresses.", symbolize.kernel_batches),
        (
            "perf_agent_symbolize_kernel_input_ips",
            "Kernel addresses to be named.",
            symbolize.kernel_input_ips,
        ),
        (
            "perf_agent_symbolize_kernel_batch_failures",
            "Batches of kernel addresses that failed.",
            symbolize.kernel_batch_failures,
        ),
        (
            "perf_agent_symbolize_kernel_raw_addr_frames",
            "Kernel frames left without a name.",
            symbolize.kernel_raw_addr_frames,
        ),
    ];
    for (name, help, value) in counters {
        writer.family(name, Kind::Counter, Unit::None, help, |samples| samples.put(&[], value));
    }
    let help = "Time to find names.";
    writer.family("perf_agent_symbolize_seconds", Kind::Histogram, Unit::Seconds, help, |samples| {
        samples.histogram(&[("kind", "user")], &symbolize.user);
        samples.histogram(&[("kind", "kernel")], &symbolize.kernel);
    });
}

fn of_snapshot(writer: &mut Writer<'_>, snapshot: &MetricsSnapshot) {
    let all = &snapshot.aggregate;
    let switches = &all.context_switches;
    let help = "Switch-outs of targets by reason.";
    writer.family("perf_agent_context_switches", Kind::Counter, Unit::None, help, |samples| {
        samples.put(&[("reason", "preempted")], switches.preempted);
        samples.put(&[("reason", "voluntary")], switches.voluntary);
        samples.put(&[("reason", "io_wait")], switches.io_wait);
    });
    let help = "Moves of threads of targets to another CPU.";
    writer.family("perf_agent_migrations", Kind::Counter, Unit::None, help, |samples| {
        samples.put(&[], all.migrations);
    });
    let help = "Times of targets from runnable to running.";
    writer.family("perf_agent_runqueue_latency_seconds", Kind::Histogram, Unit::Seconds, help, |samples| {
        samples.histogram(&[], &all.scheduling().runqueue);
    });
    let help = "Intervals of targets on a CPU.";
    writer.family("perf_agent_on_cpu_seconds", Kind::Histogram, Unit::Seconds, help, |samples| {
        samples.histogram(&[], &all.scheduling().on_cpu);
    });
    of_counters(writer, &all.counters);
}

fn of_counters(writer: &mut Writer<'_>, counters: &HardwareCounters) {
    let help = "Perf events of targets, scaled to the whole time.";
    writer.family("perf_agent_counter", Kind::Counter, Unit::None, help, |samples| {
        for counter in &counters.events {
            let value = counter.state.scaled_value();
            value.iter().for_each(|&value| samples.put(&[("event", &counter.name)], value));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::fixture;
    use crate::{Counter, CounterState, CounterUnit, Histogram, Scope};
    use std::collections::BTreeSet;
    use std::time::Duration;

    fn health() -> Health {
        let mut mode = ModeHealth::new("on-cpu");
        mode.samples = 990;
        mode.lost = vec![("ring_full".to_owned(), 0), ("map_full".to_owned(), 2)];
        mode.walks = vec![("root".to_owned(), 980), ("fault".to_owned(), 10)];
        let user = Histogram::from_iter([500, 2_000_000]);
        let symbolize = SymbolizeHealth { kernel_batches: 3, user, ..SymbolizeHealth::default() };
        let debuginfod = DebuginfodHealth { fetches: vec![("hit".to_owned(), 4)], bytes: 0 };
        let mut health = Health::new("1.2.3 \"odd\\name\"\n");
        health.modes = vec![mode];
        health.frames_symbolized = 12345;
        health.symbolize = Some(symbolize);
        health.debuginfod = Some(debuginfod);
        health.agent_cpu = Duration::from_millis(1500);
        health.bpf_cpu = vec![("cpu_sample".to_owned(), Duration::from_micros(250))];
        health.resident_bytes = Some(8 << 20);
        health.bpf_memory_bytes = Some(1024);
        health
    }

    fn snapshot() -> MetricsSnapshot {
        let mut process = fixture::process(1);
        process.comm = Some("secret-command".to_owned());
        let mut snapshot = fixture::snapshot(Scope::SystemWide { per_pid: true }, vec![process]);
        let missing = Counter::new("branches", CounterUnit::Events, CounterState::not_available("ENOENT"));
        snapshot.aggregate.counters.events.push(missing);
        snapshot.incomplete.lost_switches = 3;
        snapshot
    }

    #[test]
    fn openmetrics_as_its_readers_expect_it() {
        let text = expose(Exposition::OpenMetrics, &health(), Some(&snapshot()));
        for line in [
            "# TYPE perf_agent_build info",
            "perf_agent_build_info{version=\"1.2.3 \\\"odd\\\\name\\\"\\n\"} 1",
            "# TYPE perf_agent_samples counter",
            "perf_agent_samples_total{mode=\"on-cpu\"} 990",
            "perf_agent_lost_total{mode=\"on-cpu\",cause=\"map_full\"} 2",
            "perf_agent_walks_total{mode=\"on-cpu\",cause=\"root\"} 980",
            "perf_agent_frames_total{symbolized=\"true\"} 12345",
            "# TYPE perf_agent_symbolize_seconds histogram",
            "# UNIT perf_agent_symbolize_seconds seconds",
            "perf_agent_symbolize_seconds_bucket{kind=\"user\",le=\"0.000001023\"} 1",
            "perf_agent_symbolize_seconds_bucket{kind=\"user\",le=\"+Inf\"} 2",
            "perf_agent_symbolize_seconds_sum{kind=\"user\"} 0.0020005",
            "perf_agent_symbolize_seconds_count{kind=\"kernel\"} 0",
            "perf_agent_symbolize_kernel_batches_total 3",
            "perf_agent_debuginfod_fetches_total{result=\"hit\"} 4",
            "perf_agent_cpu_seconds_total 1.5",
            "perf_agent_bpf_seconds_total{program=\"cpu_sample\"} 0.00025",
            "perf_agent_samples_total{mode=\"pmu\"} 1200",
            "perf_agent_lost_total{mode=\"pmu\",cause=\"lost_switches\"} 3",
            "perf_agent_bpf_memory_bytes 1024",
            "# TYPE perf_agent_resident_bytes gauge",
            "perf_agent_resident_bytes 8388608",
            "perf_agent_context_switches_total{reason=\"io_wait\"} 60",
            "perf_agent_migrations_total 7",
            "perf_agent_on_cpu_seconds_bucket{le=\"0.000004095\"} 2",
            "perf_agent_on_cpu_seconds_count 3",
            "perf_agent_counter_total{event=\"cycles\"} 1234567890",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\nis not in\n{text}");
        }
        assert!(text.ends_with("\n# EOF\n"));
        assert_eq!(text.matches("# EOF").count(), 1);
        for absent in ["branches", "secret", "pid=", "\n\n"] {
            assert!(!text.contains(absent), "{absent:?} in {text}");
        }
    }

    #[test]
    fn prometheus_types_are_of_what_stands_on_the_wire() {
        let text = expose(Exposition::Prometheus, &health(), Some(&snapshot()));
        for line in [
            "# TYPE perf_agent_build_info gauge",
            "# TYPE perf_agent_samples_total counter",
            "# HELP perf_agent_samples_total Samples recorded.",
            "# TYPE perf_agent_on_cpu_seconds histogram",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\nis not in\n{text}");
        }
        assert!(!text.contains("# EOF") && !text.contains("# UNIT"));
    }

    /// Every sample belongs to the family declared right before it, each family is declared once and has samples, and
    /// buckets only grow.
    #[test]
    fn families_are_whole_in_both_formats() {
        for exposition in [Exposition::OpenMetrics, Exposition::Prometheus] {
            let (mut families, mut family, mut samples) = (BTreeSet::new(), String::new(), 1);
            let mut bucket = 0u64;
            for line in expose(exposition, &health(), Some(&snapshot())).lines() {
                if let Some(declared) = line.strip_prefix("# TYPE ") {
                    assert!(samples > 0, "{family} is empty");
                    family = declared.split(' ').next().unwrap().to_owned();
                    assert!(families.insert(family.clone()), "{family} twice");
                    samples = 0;
                } else if !line.starts_with('#') {
                    assert!(line.starts_with(&family), "{line} in {family}");
                    let (series, value) = line.rsplit_once(' ').unwrap();
                    assert!(value.parse::<f64>().unwrap() >= 0.0);
                    if series.contains("_bucket") {
                        let count = value.parse().unwrap();
                        assert!(count >= bucket || series.contains("0.000001023"), "{line}");
                        bucket = count;
                    }
                    samples += 1;
                }
            }
            assert!(families.len() > 15, "{families:?}");
        }
    }

    #[test]
    fn without_metrics_only_health_is_shown() {
        let text = expose(Exposition::OpenMetrics, &Health::new("1"), None);
        assert!(!text.contains("runqueue") && !text.contains("debuginfod") && text.contains("cpu_seconds"));
        assert!(
            !text.contains("perf_agent_frames") && !text.contains("perf_agent_samples"),
            "no profile is taken"
        );
        assert!(text.ends_with("# EOF\n"));
    }
}
