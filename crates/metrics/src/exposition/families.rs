//! The families of metrics: their names, help texts and values.

use super::format::Exposition;
use super::health::{Health, SymbolizeHealth};
use super::highest::HighestValues;
use super::writer::{Kind, Unit, Writer};
use crate::{HardwareCounters, Incomplete, MetricsSnapshot};

/// Writes all families. A counter or histogram shows at least the value that `highest` holds of it.
pub(super) fn write(
    highest: &mut HighestValues,
    exposition: Exposition,
    health: &Health,
    snapshot: Option<&MetricsSnapshot>,
) -> String {
    let mut writer = Writer::new(exposition, highest);
    of_health(&mut writer, health, snapshot);
    if let Some(snapshot) = snapshot {
        of_snapshot(&mut writer, snapshot);
    }
    writer.finish()
}

/// The mode of a snapshot.
const PMU: &str = "pmu";

/// Losses that are final. Other gaps of a snapshot may be filled later, and a counter must not fall.
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
