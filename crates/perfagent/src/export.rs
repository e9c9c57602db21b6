//! Delivery of metrics: exporters of the host program, and the HTTP endpoint.
//!
//! Guaranteed: an exporter that fails, panics or is slow leads to a warning, and disturbs neither the capture nor other
//! exporters. The agent stops waiting for an exporter that does not return.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use metrics::endpoint::{Endpoint, ListenAddress, Server};
use metrics::{Exposer, MetricsExporter, MetricsSnapshot};

use crate::Error;
use crate::finished::{Warning, WarningKind};
use crate::session::Shared;

/// How long the agent waits for all exporters together after the end of the capture.
const PATIENCE: Duration = Duration::from_secs(5);
/// The largest number of different failures reported for one exporter.
const MAX_FAILURES: usize = 4;

type Exporter = Box<dyn MetricsExporter + Send>;

/// Exporters before the start of the capture.
#[derive(Default)]
pub(crate) struct Exporters {
    all: Vec<Exporter>,
}

/// Running exporters, each on its own thread.
pub(crate) struct Exporting {
    workers: Vec<Worker>,
}

struct Worker {
    /// Takes the last snapshot. If it closes without one, the exporter is not called again.
    last: Sender<Arc<MetricsSnapshot>>,
    /// Carries no message; it closes when the thread ends.
    ended: Receiver<()>,
    state: Arc<ExporterState>,
}

/// The name and the failures of an exporter.
#[derive(Default)]
struct ExporterState {
    name: OnceLock<String>,
    failures: Mutex<Vec<String>>,
}

impl Exporters {
    pub(crate) fn add(&mut self, exporter: impl MetricsExporter + Send + 'static) {
        self.all.push(Box::new(exporter));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Starts the exporters. They are called at each interval and at the end.
    pub(crate) fn start(self, interval: Option<Duration>, shared: &Arc<Shared>) -> Result<Exporting, Error> {
        let workers = self.all.into_iter().map(|exporter| Worker::start(exporter, interval, shared));
        Ok(Exporting { workers: workers.collect::<Result<_, _>>()? })
    }
}

impl Exporting {
    /// Gives each exporter the last snapshot, if there is one, and waits for them. Returns a warning for each failure since
    /// the start.
    pub(crate) fn finish(self, snapshot: Option<&MetricsSnapshot>) -> Vec<Warning> {
        let snapshot = snapshot.cloned().map(Arc::new);
        let waiting = self.workers.into_iter().map(|Worker { last, ended, state }| {
            if let Some(snapshot) = &snapshot {
                // A thread that has already ended has panicked; the failure is recorded.
                let _ = last.send(Arc::clone(snapshot));
            }
            (ended, state)
        });
        let deadline = Instant::now() + PATIENCE;
        let mut warnings = Vec::new();
        for (ended, state) in waiting.collect::<Vec<_>>() {
            let left = deadline.saturating_duration_since(Instant::now());
            let is_late = ended.recv_timeout(left) == Err(RecvTimeoutError::Timeout);
            let failures =
                std::mem::take(&mut *state.failures.lock().unwrap_or_else(PoisonError::into_inner));
            warnings.extend(failures.into_iter().map(|message| Warning::bare(WarningKind::Metrics, message)));
            if is_late {
                let message =
                    format!("{} did not return within {PATIENCE:?} and was left behind", state.exporter());
                warnings.push(Warning::new(WarningKind::Metrics, message, "its last metrics may be missing"));
            }
        }
        warnings
    }
}

impl Worker {
    fn start(exporter: Exporter, interval: Option<Duration>, shared: &Arc<Shared>) -> Result<Self, Error> {
        let ((last, snapshots), (alive, ended)) = (channel(), channel::<()>());
        let state = Arc::new(ExporterState::default());
        let (shared, thread_state) = (Arc::clone(shared), Arc::clone(&state));
        let body = move || {
            export_until_the_end(exporter, interval, &shared, &snapshots, &thread_state);
            drop(alive);
        };
        let started = sys::thread::spawn_quiet_thread("expo", body);
        started.map_err(|source| Error::System {
            attempt: "start the thread of a metrics exporter".to_owned(),
            source,
        })?;
        Ok(Self { last, ended, state })
    }
}

impl ExporterState {
    fn exporter(&self) -> String {
        match self.name.get() {
            Some(name) => format!("the metrics exporter {name}"),
            None => "a metrics exporter".to_owned(),
        }
    }

    fn failed(&self, message: String) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if !failures.contains(&message) && failures.len() < MAX_FAILURES {
            failures.push(message);
        }
    }
}

fn export_until_the_end(
    exporter: Exporter,
    interval: Option<Duration>,
    shared: &Shared,
    last: &Receiver<Arc<MetricsSnapshot>>,
    state: &ExporterState,
) {
    let mut next = interval.map(|interval| Instant::now() + interval);
    loop {
        let received = match next {
            Some(next) => last.recv_timeout(next.saturating_duration_since(Instant::now())),
            None => last.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let snapshot = match &received {
            Ok(snapshot) => Some(Arc::clone(snapshot)),
            Err(RecvTimeoutError::Timeout) => shared.metrics(),
            Err(RecvTimeoutError::Disconnected) => None,
        };
        if let Some(snapshot) = snapshot {
            export(exporter.as_ref(), &snapshot, state);
        }
        if received != Err(RecvTimeoutError::Timeout) {
            break;
        }
        next = interval.map(|interval| Instant::now() + interval);
    }
    if catch_unwind(AssertUnwindSafe(|| drop(exporter))).is_err() {
        state.failed(format!("{} panicked", state.exporter()));
    }
}

fn export(exporter: &dyn MetricsExporter, snapshot: &MetricsSnapshot, state: &ExporterState) {
    let result = catch_unwind(AssertUnwindSafe(|| {
        state.name.get_or_init(|| exporter.name().to_owned());
        exporter.export(snapshot)
    }));
    match result {
        Ok(Ok(())) => {}
        Ok(Err(error)) => state.failed(format!("{} failed: {error}", state.exporter())),
        Err(_) => state.failed(format!("{} panicked", state.exporter())),
    }
}

/// Binds the address of the metrics endpoint.
pub(crate) fn bind(address: &ListenAddress) -> Result<Endpoint, Error> {
    Endpoint::bind(address).map_err(|error| Error::Listen {
        hint: error.hint().to_owned(),
        address: error.address.to_string(),
        source: error.source,
    })
}

/// Answers requests with the health and metrics of the running capture.
pub(crate) fn serve(endpoint: Endpoint, shared: Arc<Shared>) -> Result<Server, Error> {
    let exposer = Exposer::new();
    let source = move |form| exposer.expose(form, &shared.health(), shared.metrics().as_deref());
    endpoint.start(source, |job| sys::thread::spawn_quiet_thread("http", job)).map_err(|source| {
        Error::System { attempt: "start the thread of the metrics endpoint".to_owned(), source }
    })
}
