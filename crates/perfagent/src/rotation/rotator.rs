//! Cuts of a running capture: one, or one after each interval.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::pending::{PendingIntervals, approximate_bytes};
use crate::late_recording::LateRecording;
use crate::session::{CutInterval, Request};
use crate::{Error, Recording};

/// When a capture is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cutting {
    /// Time between two cuts.
    pub(crate) every: Duration,
    /// When the capture will end, if that is known.
    pub(crate) until: Option<Instant>,
}

impl Cutting {
    /// Whether a cut at this moment would leave less than half an interval. The end of the capture may come a moment late.
    fn leaves_a_stub(&self, now: Instant) -> bool {
        self.until.is_some_and(|end| {
            let apart = end.saturating_duration_since(now).max(now.saturating_duration_since(end));
            apart < self.every / 2
        })
    }
}

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

    /// Cuts until the capture ends or `stopped` closes.
    pub(super) fn run(&self, cutting: Cutting, stopped: &Receiver<()>, pending: &PendingIntervals) {
        let every = cutting.every;
        let mut due = Instant::now() + every;
        while stopped.recv_timeout(due.saturating_duration_since(Instant::now()))
            == Err(RecvTimeoutError::Timeout)
        {
            // A cut that took longer than an interval is not made up for.
            due = (due + every).max(Instant::now());
            if cutting.leaves_a_stub(Instant::now()) {
                continue;
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cut_leaves_less_than_half_an_interval() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let cutting = Cutting { every: Duration::from_millis(1000), until: Some(at(3400)) };
        let cuts = [1000, 2000, 3000, 3400, 3450].map(|ms| !cutting.leaves_a_stub(at(ms)));
        assert_eq!(cuts, [true, true, false, false, false]);
        let exact = Cutting { until: Some(at(3500)), ..cutting };
        assert!(!exact.leaves_a_stub(at(3000)), "half an interval is left");
        assert!(!Cutting { until: None, ..cutting }.leaves_a_stub(at(3400)));
    }
}
