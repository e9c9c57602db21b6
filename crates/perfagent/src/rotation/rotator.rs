//! Cuts of a running capture: one, or one after each interval.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::pending::{PendingIntervals, approximate_bytes};
use crate::late_recording::LateRecording;
use crate::session::{CutInterval, Request};
use crate::{Error, Recording};

/// Cuts a capture.
pub(crate) struct Rotator {
    requests: Sender<Request>,
}

impl Rotator {
    pub(crate) fn new(requests: Sender<Request>) -> Self {
        Self { requests }
    }

    /// The interval so far. Its names may still be on their way.
    pub(crate) fn cut(&self) -> Result<Recording, Error> {
        self.cut_and_measure().map(|(recording, _)| recording)
    }

    /// The same, and about how many bytes it takes.
    fn cut_and_measure(&self) -> Result<(Recording, usize), Error> {
        let (reply, answer) = channel();
        self.requests.send(Request::Cut(reply)).map_err(|_| Error::NotRunning)?;
        let CutInterval { recording, names } = answer.recv().map_err(|_| Error::NotRunning)??;
        let bytes = approximate_bytes(&recording);
        Ok((Recording::late(LateRecording::new(recording, names)), bytes))
    }

    /// Cuts every `every`, until the capture ends or `stopped` closes.
    pub(super) fn run(&self, every: Duration, stopped: &Receiver<()>, pending: &PendingIntervals) {
        let mut due = Instant::now() + every;
        while stopped.recv_timeout(due.saturating_duration_since(Instant::now()))
            == Err(RecvTimeoutError::Timeout)
        {
            // A cut that took longer than an interval is not made up for.
            due = (due + every).max(Instant::now());
            match self.cut_and_measure() {
                Ok((recording, bytes)) => {
                    if !pending.push(recording, bytes) {
                        break;
                    }
                }
                Err(Error::NotRunning) => break,
                Err(error) => tracing::warn!(target: "perfagent", "{error}"),
            }
        }
    }
}
