//! The names of an ended interval, which the thread may still be looking for.

use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use recording::Names;

use crate::abandon::AbandonToken;
use crate::interval::Interval;

/// How long the file that is being read when symbolization is abandoned may still take.
pub(super) const GRACE: Duration = Duration::from_millis(500);
/// Time between two checks whether symbolization is abandoned.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The names of an ended interval. If it is dropped, nobody looks for them any more.
pub struct LateNames {
    interval: Arc<Interval>,
    /// Gives one message when all places were looked up; closes when the thread ends.
    done: Mutex<Receiver<()>>,
    abandon: AbandonToken,
    abandoned_at: Arc<OnceLock<Instant>>,
}

impl LateNames {
    pub(super) fn new(
        interval: Arc<Interval>,
        done: Receiver<()>,
        abandon: AbandonToken,
        abandoned_at: Arc<OnceLock<Instant>>,
    ) -> Self {
        Self { interval, done: Mutex::new(done), abandon, abandoned_at }
    }

    /// Places that were not looked up so far.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.interval.left()
    }

    /// Waits until all places have been looked up, until `given_up` holds, or until symbolization is abandoned; the thread may then still be
    /// busy with its last file. `tell_left` is called again and again with the number of places that are still to be looked up. Returns the
    /// names that were found, once; places that were not looked up are counted in their outcome.
    pub fn wait(&self, given_up: impl Fn() -> bool, tell_left: impl Fn(u64)) -> Names {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        wait(&done, &self.abandon, &self.abandoned_at, || {
            tell_left(self.left());
            !given_up()
        });
        let names = self.interval.take_names();
        tell_left(0);
        names
    }
}

impl fmt::Debug for LateNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LateNames").field("left", &self.left()).finish_non_exhaustive()
    }
}

/// Waits until a channel gives something or closes: true. False if `goes_on` says so, or if the grace after the abandonment has passed, which
/// all intervals share.
pub(super) fn wait(
    end: &Receiver<()>,
    abandon: &AbandonToken,
    abandoned_at: &OnceLock<Instant>,
    goes_on: impl Fn() -> bool,
) -> bool {
    while goes_on() {
        match end.recv_timeout(CHECK_INTERVAL) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) if abandon.is_abandoned() => {
                if abandoned_at.get_or_init(Instant::now).elapsed() >= GRACE {
                    return false;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    false
}
