//! The health of the profiler and the metrics of a capture as text for monitoring systems.

mod exposer;
mod families;
mod format;
mod health;
mod highest;
mod writer;

pub use exposer::Exposer;
pub use format::Exposition;
pub use health::{DebuginfodHealth, Health, ModeHealth, SymbolizeHealth};

use highest::HighestValues;

use crate::MetricsSnapshot;

/// Writes the metrics of the profiler itself and, if scheduler metrics are taken, those of `snapshot`, whose switches
/// are the samples of mode `pmu`. Families without a value are left out. No label holds a process, command or path.
#[must_use]
pub fn expose(exposition: Exposition, health: &Health, snapshot: Option<&MetricsSnapshot>) -> String {
    families::write(&mut HighestValues::default(), exposition, health, snapshot)
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
