//! The ledgers and the metrics of a capture that goes on.

use std::collections::BTreeMap;
use std::time::Duration;

use metrics::Span;

use super::accounting;
use super::parts::Parts;
use crate::health;

/// Computes the ledgers of the present interval and shares them.
pub(super) fn update_ledgers(parts: &mut Parts) {
    let accounting = accounting::of_interval(parts);
    parts.ledgers = report::running(&parts.settings, &accounting);
    parts.shared.set_ledgers(&parts.ledgers);
}

/// Takes the statistics of processes while nobody asks for metrics: the kernel side has room for those of about a second.
pub(super) fn gather_metrics(parts: &mut Parts) {
    let Some(stats) = &mut parts.sources.sched_stats else { return };
    let taken = stats.take_by_process(&mut parts.kernel, &parts.processes);
    parts.warnings.checked(taken);
}

/// Takes a snapshot of the metrics and shares it.
pub(super) fn share_metrics(parts: &mut Parts, duration: Duration) {
    let span = Span { start: parts.started, duration };
    let stats = parts.sources.sched_stats.as_mut();
    let snapshot = stats.map(|stats| stats.snapshot(&mut parts.kernel, &parts.processes, span));
    let snapshot = snapshot.and_then(|snapshot| parts.warnings.checked(snapshot));
    parts.shared.set_metrics(snapshot);
}

/// Shares the state of the agent with the metrics endpoint.
pub(super) fn share_health(parts: &mut Parts) {
    let mut health = health::of(&parts.ledgers);
    if parts.config.takes_stacks() {
        parts.naming.tell(&mut health);
    }
    let memory = parts.kernel.memory();
    health.bpf_memory_bytes = Some((memory.table_pool_bytes + memory.fixed_bytes) as u64);
    let times: BTreeMap<String, u64> = parts.kernel.run_times_ns().unwrap_or_default();
    health.bpf_cpu = times.into_iter().map(|(name, time_ns)| (name, Duration::from_nanos(time_ns))).collect();
    parts.shared.set_health(health, parts.usage);
}
