//! Cutting a running capture again and again.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::finished::Ended;
use crate::output::{IntervalOutputs, OutputReport};
use crate::session::{CutInterval, Request, report_on};
use crate::{CancelToken, Error, Recording, Warning, WarningKind};

/// Failed outputs of intervals that are kept for the report.
const MAX_FAILED: usize = 64;
/// Warnings of intervals that are kept for the report.
const MAX_WARNINGS: usize = 16;

/// Time between two checks whether the thread has ended.
const END_CHECK: Duration = Duration::from_millis(1);

/// Cuts a capture.
pub(crate) struct Rotator {
    requests: Sender<Request>,
    abandon: CancelToken,
}

impl Rotator {
    pub(crate) fn new(requests: Sender<Request>, abandon: CancelToken) -> Self {
        Self { requests, abandon }
    }

    /// The interval so far, with names.
    pub(crate) fn cut(&self) -> Result<Recording, Error> {
        self.cut_and_judge().map(|(recording, _)| recording)
    }

    /// The same, and what is to be said about the interval.
    fn cut_and_judge(&self) -> Result<(Recording, Vec<Warning>), Error> {
        let (reply, answer) = channel();
        self.requests.send(Request::Cut(reply)).map_err(|_| Error::NotRunning)?;
        let CutInterval { recording, names } = answer.recv().map_err(|_| Error::NotRunning)??;
        let names = names.wait(|_| {});
        let mut symbolized = recording::SymbolizedRecording { recording, names, ledgers: Vec::new() };
        let mut warnings = Vec::new();
        report_on(&mut symbolized, Ended::Stopped, &mut warnings);
        Ok((Recording::new(symbolized), warnings))
    }
}

/// What became of the intervals.
#[derive(Default)]
pub(crate) struct Rotated {
    /// How many there were.
    pub(crate) intervals: u64,
    /// Outputs that could not be written.
    pub(crate) failed: Vec<OutputReport>,
    /// What was lost in intervals. An interval without samples is nothing to warn of.
    pub(crate) warnings: Vec<Warning>,
}

/// A thread that cuts a capture periodically. Dropping it ends that, and not the capture.
#[derive(Debug)]
pub struct Rotation {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<Rotated>>,
}

impl Rotation {
    /// Cuts every `every`; `each` gives the outputs that it could not write.
    pub(crate) fn start(
        rotator: Rotator,
        every: Duration,
        each: impl FnMut(Recording) -> Vec<OutputReport> + Send + 'static,
    ) -> Result<Self, Error> {
        let (stop, stopped) = channel();
        let body = move || rotate(&rotator, every, &stopped, each);
        let thread = sys::thread::spawn_quiet_thread("rotate", body)
            .map_err(|source| Error::System { attempt: "start the thread that cuts".to_owned(), source })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// Writes one set of outputs per interval.
    pub(crate) fn of_outputs(
        rotator: Rotator,
        every: Duration,
        outputs: IntervalOutputs,
    ) -> Result<Self, Error> {
        let give_up = rotator.abandon.clone();
        Self::start(rotator, every, move |recording| {
            let mut written = outputs.write(recording.model(), &give_up);
            written.retain(|output| output.result.is_err());
            written
        })
    }

    /// Ends it after the interval that is being cut. `meanwhile` is called again and again.
    pub(crate) fn finish(mut self, meanwhile: impl Fn()) -> Rotated {
        drop(self.stop.take());
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            meanwhile();
            std::thread::sleep(END_CHECK);
        }
        self.end()
    }

    fn end(&mut self) -> Rotated {
        drop(self.stop.take());
        // The function that takes the recordings may drop the handle; its thread cannot wait for itself.
        let thread = self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id());
        thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Rotation {
    fn drop(&mut self) {
        self.end();
    }
}

fn rotate(
    rotator: &Rotator,
    every: Duration,
    stopped: &Receiver<()>,
    mut each: impl FnMut(Recording) -> Vec<OutputReport>,
) -> Rotated {
    let mut rotated = Rotated::default();
    let mut due = Instant::now() + every;
    while stopped.recv_timeout(due.saturating_duration_since(Instant::now()))
        == Err(RecvTimeoutError::Timeout)
    {
        // A cut that took longer than an interval is not made up for.
        due = (due + every).max(Instant::now());
        let (recording, warnings) = match rotator.cut_and_judge() {
            Ok(cut) => cut,
            Err(Error::NotRunning) => break,
            Err(error) => {
                tracing::warn!(target: "perfagent", "{error}");
                continue;
            }
        };
        rotated.intervals += 1;
        let lost = warnings.into_iter().filter(|warning| warning.kind == WarningKind::Lost);
        rotated.warnings.extend(lost.take(MAX_WARNINGS.saturating_sub(rotated.warnings.len())));
        let failed = each(recording);
        let room = MAX_FAILED.saturating_sub(rotated.failed.len());
        rotated.failed.extend(failed.into_iter().take(room));
    }
    rotated
}
