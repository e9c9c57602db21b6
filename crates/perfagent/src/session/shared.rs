//! The state that a capture shares with its agent and with threads that watch it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::{Health, MetricsSnapshot};

use crate::child::ChildHandle;
use crate::finished::{Ended, TargetProcess};
use crate::injection::PythonStats;
use crate::usage::Usage;
use crate::{Ledger, health};

/// The shared state of a capture.
#[derive(Default)]
pub(crate) struct Shared {
    state: Mutex<SharedState>,
    changed: Condvar,
    /// Somebody has asked for metrics: from then on there is a snapshot each second. For nobody, copies of the figures of
    /// thousands of processes would be most of our memory.
    metrics_wanted: AtomicBool,
}

/// The first snapshot comes with the next round of the capture, which may be its last; only a machine that lets it have no CPU
/// needs so long.
const FIRST_METRICS: Duration = Duration::from_secs(60);

#[derive(Default)]
struct SharedState {
    ledgers: Vec<Ledger>,
    health: Option<Health>,
    /// What this process has used since the capture was started.
    usage: Option<Usage>,
    metrics: Option<Arc<MetricsSnapshot>>,
    /// A snapshot was taken, or could not be.
    measured: bool,
    ended: Option<Ended>,
    tables_left: u64,
    names_left: Option<u64>,
    metrics_address: Option<SocketAddr>,
    child: Option<ChildHandle>,
    python: Option<PythonStats>,
    targets: Vec<TargetProcess>,
    /// The last wait came to its end before the capture did.
    waited: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, SharedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ledger as of the last round.
    pub(crate) fn ledger(&self) -> Ledger {
        self.lock().ledgers.first().cloned().unwrap_or_default()
    }

    /// The last snapshot of the metrics. The first call waits for it.
    pub(crate) fn metrics(&self) -> Option<Arc<MetricsSnapshot>> {
        self.want_metrics();
        let state = self.lock();
        let waited = self
            .changed
            .wait_timeout_while(state, FIRST_METRICS, |state| !state.measured && state.ended.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.metrics.clone()
    }

    /// The last snapshot of the metrics, if there is one.
    pub(super) fn last_metrics(&self) -> Option<Arc<MetricsSnapshot>> {
        self.lock().metrics.clone()
    }

    /// A new snapshot, if it could be taken.
    pub(crate) fn set_metrics(&self, snapshot: Option<MetricsSnapshot>) {
        let mut state = self.lock();
        state.measured = true;
        if let Some(snapshot) = snapshot {
            state.metrics = Some(Arc::new(snapshot));
        }
        drop(state);
        self.changed.notify_all();
    }

    /// From now on there is a snapshot each second.
    pub(super) fn want_metrics(&self) {
        self.metrics_wanted.store(true, Ordering::Relaxed);
    }

    /// Whether anybody has asked for metrics.
    pub(super) fn are_metrics_wanted(&self) -> bool {
        self.metrics_wanted.load(Ordering::Relaxed)
    }

    /// Whether somebody waits for the first snapshot.
    pub(super) fn awaits_metrics(&self) -> bool {
        self.are_metrics_wanted() && !self.lock().measured
    }

    /// The state of the agent: its present use of resources, and ledgers that are at most a second old.
    pub(crate) fn health(&self) -> Health {
        let state = self.lock();
        let (health, usage) = (state.health.clone(), state.usage);
        drop(state);
        let mut health = health.unwrap_or_else(|| health::of(&[]));
        health.agent_cpu = usage.map_or(Duration::ZERO, |usage| usage.cpu());
        health.resident_bytes = sys::usage::resident_bytes();
        health
    }

    pub(super) fn set_ledgers(&self, ledgers: &[Ledger]) {
        self.lock().ledgers = ledgers.to_vec();
    }

    pub(super) fn set_health(&self, health: Health, usage: Usage) {
        let mut state = self.lock();
        state.health = Some(health);
        state.usage = Some(usage);
    }

    /// Wakes the threads that wait for the end of the capture.
    pub(super) fn end(&self, ended: Ended) {
        let mut state = self.lock();
        state.ended = Some(ended);
        state.metrics_address = None;
        drop(state);
        self.changed.notify_all();
    }

    /// Tables that the first sample waits for.
    pub(crate) fn tables_left(&self) -> u64 {
        self.lock().tables_left
    }

    pub(super) fn set_tables_left(&self, left: u64) {
        self.lock().tables_left = left;
    }

    /// Places that are still to be named. None as long as the capture goes on.
    pub(crate) fn names_left(&self) -> Option<u64> {
        self.lock().names_left
    }

    pub(super) fn set_names_left(&self, left: u64) {
        self.lock().names_left = Some(left);
    }

    /// Where metrics are served. None as long as they are not.
    pub(crate) fn metrics_address(&self) -> Option<SocketAddr> {
        self.lock().metrics_address
    }

    pub(super) fn set_metrics_address(&self, address: Option<SocketAddr>) {
        self.lock().metrics_address = address;
    }

    /// The targets as they were found at the start.
    pub(crate) fn targets(&self) -> Vec<TargetProcess> {
        self.lock().targets.clone()
    }

    pub(super) fn set_targets(&self, targets: Vec<TargetProcess>) {
        self.lock().targets = targets;
    }

    /// The command, since it runs.
    pub(crate) fn child(&self) -> Option<ChildHandle> {
        self.lock().child.clone()
    }

    pub(super) fn set_child(&self, child: ChildHandle) {
        self.lock().child = Some(child);
    }

    /// What was done with trampolines of CPython, if that was asked for.
    pub(crate) fn python_stats(&self) -> Option<PythonStats> {
        self.lock().python.clone()
    }

    pub(super) fn set_python_stats(&self, stats: PythonStats) {
        self.lock().python = Some(stats);
    }

    /// Whether the last wait came to its end before the capture did.
    pub(crate) fn has_waited(&self) -> bool {
        self.lock().waited
    }

    /// Waits until the capture has ended by itself.
    pub(crate) fn wait(&self, timeout: Duration) -> Ended {
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, timeout, |state| state.ended.is_none());
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.waited = state.ended.is_none();
        state.ended.unwrap_or(Ended::Duration)
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use metrics::{HardwareCounters, Incomplete, Scope, Span};

    use super::*;

    #[test]
    fn who_asks_for_metrics_first_waits_for_them() {
        let shared = Arc::new(Shared::default());
        assert!(!shared.are_metrics_wanted() && !shared.awaits_metrics());
        let theirs = Arc::clone(&shared);
        let first = std::thread::spawn(move || theirs.metrics());
        while !shared.awaits_metrics() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let span = Span { start: SystemTime::UNIX_EPOCH, duration: Duration::ZERO };
        let scope = Scope::SystemWide { per_pid: false };
        let (counters, incomplete) = (HardwareCounters::default(), Incomplete::default());
        shared.set_metrics(Some(MetricsSnapshot::new(scope, span, [], counters, incomplete)));
        assert!(first.join().unwrap().is_some());
        assert!(shared.are_metrics_wanted() && !shared.awaits_metrics());
        shared.set_metrics(None);
        assert!(shared.metrics().is_some(), "one that could not be taken replaces nothing");
    }
}
