//! What a capture shares with the agent that runs it, and with those who watch it meanwhile.

use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::{Health, MetricsSnapshot};

use crate::child::ChildHandle;
use crate::report::Ended;
use crate::usage::Usage;
use crate::{Ledger, health};

/// What a capture shares with the agent that runs it.
#[derive(Default)]
pub(crate) struct Shared {
    state: Mutex<SharedState>,
    changed: Condvar,
}

#[derive(Default)]
struct SharedState {
    ledgers: Vec<Ledger>,
    health: Option<Health>,
    /// What this process has used since the capture was started.
    usage: Option<Usage>,
    metrics: Option<Arc<MetricsSnapshot>>,
    ended: Option<Ended>,
    names_left: Option<u64>,
    metrics_address: Option<SocketAddr>,
    child: Option<ChildHandle>,
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

    /// The last snapshot of the metrics.
    pub(crate) fn metrics(&self) -> Option<Arc<MetricsSnapshot>> {
        self.lock().metrics.clone()
    }

    pub(crate) fn set_metrics(&self, snapshot: Option<MetricsSnapshot>) {
        self.lock().metrics = snapshot.map(Arc::new);
    }

    /// How the agent is: what it uses as of now, the rest not older than a second.
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

    /// Tells those who wait that the capture has ended.
    pub(super) fn end(&self, ended: Ended) {
        let mut state = self.lock();
        state.ended = Some(ended);
        state.metrics_address = None;
        drop(state);
        self.changed.notify_all();
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

    /// The command, since it runs.
    pub(crate) fn child(&self) -> Option<ChildHandle> {
        self.lock().child.clone()
    }

    pub(super) fn set_child(&self, child: ChildHandle) {
        self.lock().child = Some(child);
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
