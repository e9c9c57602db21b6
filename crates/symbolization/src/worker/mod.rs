//! The thread that finds names while a capture runs.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use recording::Names;

use crate::abandon::AbandonToken;
use crate::engine::{Engine, Observer};
use crate::figures::{Figures, Lookup};
use crate::interval::Interval;
use crate::options::Options;
use crate::sources::Sources;
use crate::work::Work;

/// How long the file that is being read when symbolization is abandoned may still take.
const GRACE: Duration = Duration::from_millis(500);
/// Between two looks at whether symbolization is abandoned.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Intervals are held weakly: nobody waits for the names of a dropped one.
enum Message {
    Begin,
    Work { interval: Weak<Interval>, work: Work },
    End { interval: Weak<Interval>, done: Sender<()> },
}

/// The thread that finds names. It ends when this and all [`PendingNames`] are dropped, or when it is abandoned.
pub struct Symbolization {
    messages: Sender<Message>,
    thread: JoinHandle<()>,
    /// Nothing comes; it closes when the thread ends.
    end: Receiver<()>,
    figures: Arc<Mutex<Figures>>,
    abandon: AbandonToken,
}

/// The names of one interval: places are submitted, then the names are waited for. Several intervals may be open at once.
pub struct PendingNames {
    interval: Arc<Interval>,
    messages: Sender<Message>,
    abandon: AbandonToken,
}

impl Symbolization {
    /// Starts the thread by `spawn`, which is given the body of the thread. `observe` is called on it with the time that each batch took,
    /// in ns. `abandon` ends it early.
    ///
    /// # Errors
    /// Those of `spawn`.
    pub fn start(
        sources: Sources,
        options: &Options,
        abandon: AbandonToken,
        observe: impl FnMut(Lookup, u64) + Send + 'static,
        spawn: impl FnOnce(Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>,
    ) -> io::Result<Self> {
        let (messages, queue) = channel();
        let (alive, end) = channel::<()>();
        let figures = Arc::default();
        let (theirs, token, cached_places) = (Arc::clone(&figures), abandon.clone(), options.cached_places);
        let observer: Observer = Box::new(observe);
        let thread = spawn(Box::new(move || {
            let engine = Engine::new(sources.make(), cached_places, theirs, observer, token.clone());
            find_names(engine, &queue, &token);
            drop(alive);
        }))?;
        Ok(Self { messages, thread, end, figures, abandon })
    }

    /// Begins an interval. Names that earlier intervals used are still known, and are forgotten when two intervals do not use them.
    #[must_use]
    pub fn begin_interval(&self) -> PendingNames {
        // The thread ends before this one only if it was abandoned or panicked; then frames stay without names.
        let _ = self.messages.send(Message::Begin);
        PendingNames {
            interval: Arc::default(),
            messages: self.messages.clone(),
            abandon: self.abandon.clone(),
        }
    }

    /// Figures so far, of all intervals.
    #[must_use]
    pub fn figures(&self) -> Figures {
        *self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the thread after all that was submitted, and waits for it; not longer than half a second if symbolization is abandoned. All
    /// intervals should have been waited for.
    pub fn finish(self) {
        drop(self.messages);
        if wait(&self.end, &self.abandon, || {}) {
            let _ = self.thread.join();
        }
    }
}

impl PendingNames {
    /// Submits places to be looked up.
    pub fn submit(&self, work: Work) {
        if !work.is_empty() {
            self.interval.add_submitted(work.len());
            let _ = self.messages.send(Message::Work { interval: Arc::downgrade(&self.interval), work });
        }
    }

    /// Places that were submitted and not looked up so far.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.interval.left()
    }

    /// Waits until all that was submitted has been looked up, or until symbolization is abandoned; the thread may then still be busy with
    /// its last file. `tell_left` is called again and again with the number of places that are still to be looked up. What was not looked
    /// up is counted in the names' outcome.
    pub fn wait(self, tell_left: impl Fn(u64)) -> Names {
        let (done, end) = channel();
        let _ = self.messages.send(Message::End { interval: Arc::downgrade(&self.interval), done });
        wait(&end, &self.abandon, || tell_left(self.left()));
        let names = self.interval.take_names();
        tell_left(0);
        names
    }
}

/// Waits until a channel gives something or closes: true. False if symbolization was abandoned and the grace has passed.
fn wait(end: &Receiver<()>, abandon: &AbandonToken, look: impl Fn()) -> bool {
    let mut abandoned_at = None;
    loop {
        look();
        match end.recv_timeout(LOOK_EVERY) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) if abandon.is_abandoned() => {
                if abandoned_at.get_or_insert_with(Instant::now).elapsed() >= GRACE {
                    return false;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

fn find_names(mut engine: Engine, queue: &Receiver<Message>, abandon: &AbandonToken) {
    for message in queue {
        if abandon.is_abandoned() {
            return;
        }
        match message {
            Message::Begin => engine.begin_interval(),
            Message::Work { interval, work } => {
                if let Some(interval) = interval.upgrade() {
                    engine.answer(&interval, work);
                }
            }
            Message::End { interval, done } => {
                if let Some(interval) = interval.upgrade() {
                    engine.end_interval(&interval);
                }
                let _ = done.send(());
            }
        }
    }
}

#[cfg(test)]
mod tests;
