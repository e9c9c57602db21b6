//! The thread that finds names while a capture runs.

mod backlog;
mod late_names;

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use recording::Names;

use self::backlog::{Backlog, Message, Step};
pub use self::late_names::LateNames;
use self::late_names::wait;

use crate::abandon::AbandonToken;
use crate::engine::{Engine, Observer};
use crate::figures::{Figures, Lookup};
use crate::interval::Interval;
use crate::options::Options;
use crate::sources::Sources;
use crate::work::Work;

/// The thread that finds names. It ends when this and all [`PendingNames`] are dropped and all that was submitted was looked up, or when
/// it is abandoned.
pub struct Symbolization {
    messages: Sender<Message>,
    thread: JoinHandle<()>,
    /// Nothing comes; it closes when the thread ends.
    end: Receiver<()>,
    figures: Arc<Mutex<Figures>>,
    abandon: AbandonToken,
    abandoned_at: Arc<OnceLock<Instant>>,
}

/// The names of one interval: places are submitted, then the interval is ended. Several intervals may be open at once.
pub struct PendingNames {
    interval: Arc<Interval>,
    messages: Sender<Message>,
    abandon: AbandonToken,
    abandoned_at: Arc<OnceLock<Instant>>,
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
        Ok(Self { messages, thread, end, figures, abandon, abandoned_at: Arc::default() })
    }

    /// Begins an interval. Names that earlier intervals used are still known, and are forgotten when no interval uses them for a
    /// while.
    #[must_use]
    pub fn begin_interval(&self) -> PendingNames {
        PendingNames {
            interval: Arc::default(),
            messages: self.messages.clone(),
            abandon: self.abandon.clone(),
            abandoned_at: Arc::clone(&self.abandoned_at),
        }
    }

    /// Figures so far, of all intervals.
    #[must_use]
    pub fn figures(&self) -> Figures {
        *self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the thread after all that was submitted, and waits for it; not longer than half a second if symbolization is abandoned. All
    /// intervals should have been ended.
    pub fn finish(self) {
        drop(self.messages);
        if wait(&self.end, &self.abandon, &self.abandoned_at, || true) {
            let _ = self.thread.join();
        }
    }
}

impl PendingNames {
    /// Submits places to be looked up.
    pub fn submit(&self, work: Work) {
        if !work.is_empty() {
            self.interval.add_submitted(work.len());
            // The thread ends before this one only if it was abandoned or panicked; then frames stay without names.
            let _ = self.messages.send(Message::Work { interval: Arc::downgrade(&self.interval), work });
        }
    }

    /// Places that were submitted and not looked up so far.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.interval.left()
    }

    /// Nothing more is submitted. The names can be waited for at any later time.
    #[must_use]
    pub fn end(self) -> LateNames {
        let (done, end) = channel();
        let _ = self.messages.send(Message::End { interval: Arc::downgrade(&self.interval), done });
        LateNames::new(self.interval, end, self.abandon, self.abandoned_at)
    }

    /// Ends the interval and waits for its names: see [`LateNames::wait`].
    pub fn wait(self, tell_left: impl Fn(u64)) -> Names {
        self.end().wait(|| false, tell_left)
    }
}

fn find_names(mut engine: Engine, queue: &Receiver<Message>, abandon: &AbandonToken) {
    let mut backlog = Backlog::default();
    loop {
        queue.try_iter().for_each(|message| backlog.add(message));
        if abandon.is_abandoned() {
            return;
        }
        match backlog.next() {
            Some(Step::Begin) => engine.begin_interval(),
            Some(Step::Work(interval, work)) => engine.answer(&interval, work),
            Some(Step::Module(module, intervals)) => {
                let places: Vec<_> = intervals
                    .iter()
                    .flat_map(|(interval, places)| {
                        places.iter().map(|(frame, svma)| (&**interval, *frame, *svma))
                    })
                    .collect();
                engine.answer_module(&module, &places);
            }
            Some(Step::End(interval, done)) => {
                engine.end_interval(&interval);
                let _ = done.send(());
            }
            None => match queue.recv() {
                Ok(message) => backlog.add(message),
                Err(_) => return engine.keep(),
            },
        }
    }
}

#[cfg(test)]
mod tests;
