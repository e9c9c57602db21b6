//! Metrics to those who want them: exporters that the host program gives, and the HTTP endpoint.
//!
//! Guaranteed: an exporter that fails, panics or takes its time is a warning, and disturbs neither the capture nor others;
//! one that does not return is left behind.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use metrics::endpoint::{Endpoint, ListenAddress, Server};
use metrics::{Exposer, MetricsExporter, MetricsSnapshot};

use crate::Error;
use crate::finished::{Warning, WarningKind};
use crate::session::Shared;

/// For how long exporters are waited for after the end of the capture, all together.
const PATIENCE: Duration = Duration::from_secs(5);
/// Different failures of one exporter that are told.
const MAX_FAILURES: usize = 4;

type Exporter = Box<dyn MetricsExporter + Send>;

/// Exporters that are not called yet.
#[derive(Default)]
pub(crate) struct Exporters {
    all: Vec<Exporter>,
}

/// Exporters, each on a thread of its own.
pub(crate) struct Exporting {
    workers: Vec<Worker>,
}

struct Worker {
    /// Takes the last snapshot; without one, the exporter is not called any more when it closes.
    last: Sender<Arc<MetricsSnapshot>>,
    /// Nothing comes; it closes when the thread ends.
    ended: Receiver<()>,
    told: Arc<Told>,
}

/// What is known of an exporter.
#[derive(Default)]
struct Told {
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

    /// Calls them from now on, at each interval and at the end.
    pub(crate) fn start(self, interval: Option<Duration>, shared: &Arc<Shared>) -> Result<Exporting, Error> {
        let workers = self.all.into_iter().map(|exporter| Worker::start(exporter, interval, shared));
        Ok(Exporting { workers: workers.collect::<Result<_, _>>()? })
    }
}

impl Exporting {
    /// Gives everyone the last snapshot, if there is one, and waits for them. What went wrong since the start.
    pub(crate) fn finish(self, snapshot: Option<&MetricsSnapshot>) -> Vec<Warning> {
        let snapshot = snapshot.cloned().map(Arc::new);
        let waiting = self.workers.into_iter().map(|Worker { last, ended, told }| {
            if let Some(snapshot) = &snapshot {
                // One that has ended already has panicked, which was noted.
                let _ = last.send(Arc::clone(snapshot));
            }
            (ended, told)
        });
        let deadline = Instant::now() + PATIENCE;
        let mut warnings = Vec::new();
        for (ended, told) in waiting.collect::<Vec<_>>() {
            let left = deadline.saturating_duration_since(Instant::now());
            let is_late = ended.recv_timeout(left) == Err(RecvTimeoutError::Timeout);
            let failures = std::mem::take(&mut *told.failures.lock().unwrap_or_else(PoisonError::into_inner));
            warnings.extend(failures.into_iter().map(|message| Warning::bare(WarningKind::Metrics, message)));
            if is_late {
                let message =
                    format!("{} did not return within {PATIENCE:?} and was left behind", told.exporter());
                warnings.push(Warning::new(
                    WarningKind::Metrics,
                    message,
                    "what it was to export last may be missing there",
                ));
            }
        }
        warnings
    }
}

impl Worker {
    fn start(exporter: Exporter, interval: Option<Duration>, shared: &Arc<Shared>) -> Result<Self, Error> {
        let ((last, snapshots), (alive, ended)) = (channel(), channel::<()>());
        let told = Arc::new(Told::default());
        let (shared, theirs) = (Arc::clone(shared), Arc::clone(&told));
        let body = move || {
            export_until_the_end(exporter, interval, &shared, &snapshots, &theirs);
            drop(alive);
        };
        let started = sys::thread::spawn_quiet_thread("expo", body);
        started.map_err(|source| Error::System {
            attempt: "start the thread of a metrics exporter".to_owned(),
            source,
        })?;
        Ok(Self { last, ended, told })
    }
}

impl Told {
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
    told: &Told,
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
            export(exporter.as_ref(), &snapshot, told);
        }
        if received != Err(RecvTimeoutError::Timeout) {
            break;
        }
        next = interval.map(|interval| Instant::now() + interval);
    }
    if catch_unwind(AssertUnwindSafe(|| drop(exporter))).is_err() {
        told.failed(format!("{} panicked", told.exporter()));
    }
}

fn export(exporter: &dyn MetricsExporter, snapshot: &MetricsSnapshot, told: &Told) {
    let result = catch_unwind(AssertUnwindSafe(|| {
        told.name.get_or_init(|| exporter.name().to_owned());
        exporter.export(snapshot)
    }));
    match result {
        Ok(Ok(())) => {}
        Ok(Err(error)) => told.failed(format!("{} failed: {error}", told.exporter())),
        Err(_) => told.failed(format!("{} panicked", told.exporter())),
    }
}

/// Binds the address of the metrics endpoint, before anything else is done.
pub(crate) fn bind(address: &ListenAddress) -> Result<Endpoint, Error> {
    Endpoint::bind(address).map_err(|error| Error::Listen {
        hint: error.hint().to_owned(),
        address: error.address.to_string(),
        source: error.source,
    })
}

/// Answers requests with what the capture shares.
pub(crate) fn serve(endpoint: Endpoint, shared: Arc<Shared>) -> Result<Server, Error> {
    let exposer = Exposer::new();
    let source = move |form| exposer.expose(form, &shared.health(), shared.metrics().as_deref());
    endpoint.start(source, |job| sys::thread::spawn_quiet_thread("http", job)).map_err(|source| {
        Error::System { attempt: "start the thread of the metrics endpoint".to_owned(), source }
    })
}
