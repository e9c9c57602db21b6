//! Worker threads that open mapped files, so that a file system that does not answer holds up nothing but its own files.
//!
//! A worker that waits for a file system counts as blocked after a moment; another one takes its place, up to a limit. Of one device at
//! most a few workers are blocked: the further files of that device wait. A file without an answer is given up after a while, and those
//! that wait for the same device with it, until it answers again.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::files::Files;
use crate::open_failure::OpenFailure;
use crate::opening::{OpenRequest, OpeningFile};
use crate::region::RegionKind;

/// Workers that are not blocked, at most.
const WORKERS: usize = 4;
/// Workers in all, the blocked ones among them.
const MAX_WORKERS: usize = 16;
/// Blocked workers of one device.
const MAX_BLOCKED_OF_DEVICE: usize = 2;
/// A worker that is busy with one file for longer than this is blocked.
const BLOCKED: Duration = Duration::from_millis(100);
/// A file without an answer is given up after this time. Stacks wait no longer for their unwind tables either.
const GIVE_UP: Duration = Duration::from_secs(5);
/// Time between two looks at blocked workers while answers are awaited.
const SUPERVISION: Duration = Duration::from_millis(20);

/// Major and minor number.
type Device = (u32, u32);

/// Starts a thread.
pub type Spawn = Box<dyn Fn(Box<dyn FnOnce() + Send>) -> io::Result<()> + Send>;

/// Files that were answered.
#[derive(Debug, Default)]
pub struct Opened {
    /// How many files have got their answer, those that were given up among them.
    pub answered: usize,
    /// Files that had been given up, and were opened after all. Processes that map them have to be read again.
    pub late: Vec<Arc<OpeningFile>>,
}

/// The workers. They end when it is dropped, each after the file in progress.
pub struct Opener {
    shared: Arc<Shared>,
    spawn: Spawn,
    /// Something was asked for since the answers were last taken.
    asked: bool,
    patience: Duration,
}

/// Opens a file; may block.
type Open = Box<dyn Fn(&OpenRequest) -> RegionKind + Send + Sync>;

struct Shared {
    files: Arc<Files>,
    open: Open,
    state: Mutex<State>,
    /// For workers.
    work: Condvar,
    /// For those who wait for answers.
    answers: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Asked>,
    running: Vec<Running>,
    finished: Vec<(Arc<OpeningFile>, RegionKind)>,
    threads: usize,
    next_ticket: u64,
    closed: bool,
}

struct Asked {
    request: OpenRequest,
    since: Instant,
}

/// What a worker is busy with.
struct Running {
    ticket: u64,
    file: Arc<OpeningFile>,
    asked: Instant,
    begun: Instant,
    given_up: bool,
}

impl Opener {
    /// Starts the first worker through `spawn`, which may prepare the thread; further ones when they are needed.
    ///
    /// # Errors
    /// `spawn` failed.
    pub fn start(files: Arc<Files>, spawn: Spawn) -> io::Result<Self> {
        let theirs = Arc::clone(&files);
        Self::with(files, Box::new(move |request| request.open(&theirs)), spawn, GIVE_UP)
    }

    fn with(files: Arc<Files>, open: Open, spawn: Spawn, patience: Duration) -> io::Result<Self> {
        let (work, answers) = (Condvar::new(), Condvar::new());
        let shared = Arc::new(Shared { files, open, state: Mutex::default(), work, answers });
        let this = Self { shared, spawn, asked: false, patience };
        this.start_worker()?;
        Ok(this)
    }

    /// Asks for a file.
    pub fn ask(&mut self, request: OpenRequest) {
        let mut state = self.shared.lock();
        state.waiting.push_back(Asked { request, since: Instant::now() });
        let start = state.needs_worker();
        drop(state);
        self.asked = true;
        self.shared.work.notify_one();
        if start {
            // Without it the workers that there are do everything.
            let _ = self.start_worker();
        }
    }

    /// Whether something was asked for since the answers were last taken.
    #[must_use]
    pub fn was_asked(&self) -> bool {
        self.asked
    }

    /// Files that are awaited.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.shared.lock().pending()
    }

    /// Takes the answers, after waiting until all files are answered, but no longer than `wait`.
    pub fn take(&mut self, wait: Duration) -> Opened {
        self.asked = false;
        let deadline = Instant::now() + wait;
        loop {
            let given_up = self.supervise();
            let mut state = self.shared.lock();
            let left = deadline.saturating_duration_since(Instant::now());
            if given_up.is_empty() && state.pending() > 0 && !left.is_zero() {
                let slice = left.min(SUPERVISION);
                state = self
                    .shared
                    .answers
                    .wait_timeout_while(state, slice, |state| state.pending() > 0)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
                if state.pending() > 0 && Instant::now() < deadline {
                    continue;
                }
            }
            let finished = std::mem::take(&mut state.finished);
            drop(state);
            return self.settle(finished, given_up);
        }
    }

    fn settle(
        &self,
        finished: Vec<(Arc<OpeningFile>, RegionKind)>,
        given_up: Vec<Arc<OpeningFile>>,
    ) -> Opened {
        let mut opened = Opened::default();
        for file in given_up {
            let kind = RegionKind::File(Arc::clone(file.unanswered()));
            if file.settle(kind) {
                self.shared.files.count_failure(file.wanted(), OpenFailure::NoAnswer);
                opened.answered += 1;
            }
        }
        for (file, kind) in finished {
            let was_opened = kind.file().is_none_or(|file| file.failure().is_none());
            if file.settle(kind) {
                opened.answered += 1;
            } else if was_opened {
                opened.late.push(file);
            }
        }
        opened
    }

    /// Gives files up, and starts workers in the place of blocked ones.
    fn supervise(&self) -> Vec<Arc<OpeningFile>> {
        let mut state = self.shared.lock();
        let given_up = state.give_up(self.patience);
        let start = state.needs_worker();
        drop(state);
        if start {
            let _ = self.start_worker();
        }
        given_up
    }

    fn start_worker(&self) -> io::Result<()> {
        self.shared.lock().threads += 1;
        let shared = Arc::clone(&self.shared);
        let started = (self.spawn)(Box::new(move || shared.work()));
        if started.is_err() {
            self.shared.lock().threads -= 1;
        }
        started
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.work.notify_all();
    }
}

impl Running {
    fn is_blocked(&self) -> bool {
        self.begun.elapsed() >= BLOCKED
    }
}

impl State {
    fn pending(&self) -> usize {
        self.waiting.len() + self.running.iter().filter(|running| !running.given_up).count()
    }

    /// The next request that a worker may take.
    fn next(&self) -> Option<usize> {
        let blocked: Vec<Device> = self.devices_of(Running::is_blocked).collect();
        let silent: Vec<Device> = self.devices_of(|running| running.given_up).collect();
        let may_be_asked = |asked: &Asked| {
            let device = device(asked.request.file());
            let blocked = blocked.iter().filter(|blocked| **blocked == device).count();
            blocked < MAX_BLOCKED_OF_DEVICE && !silent.contains(&device)
        };
        self.waiting.iter().position(may_be_asked)
    }

    /// The device of each worker that is chosen.
    fn devices_of(&self, chosen: impl Fn(&Running) -> bool) -> impl Iterator<Item = Device> {
        self.running.iter().filter(move |running| chosen(running)).map(|running| device(&running.file))
    }

    /// Whether a further worker would have something to do.
    fn needs_worker(&self) -> bool {
        let blocked = self.running.iter().filter(|running| running.is_blocked()).count();
        let idle = self.threads - self.running.len();
        idle < self.waiting.len()
            && self.threads - blocked < WORKERS
            && self.threads < MAX_WORKERS
            && (idle == 0 || self.waiting.len() > 1)
            && self.next().is_some()
    }

    /// Takes the files that are awaited for too long, and those that wait for a device with such a file.
    fn give_up(&mut self, patience: Duration) -> Vec<Arc<OpeningFile>> {
        let mut given_up = Vec::new();
        for running in self.running.iter_mut().filter(|running| !running.given_up) {
            if running.asked.elapsed() >= patience {
                running.given_up = true;
                given_up.push(Arc::clone(&running.file));
            }
        }
        let silent: Vec<Device> = self.devices_of(|running| running.given_up).collect();
        self.waiting.retain(|asked| {
            let file = asked.request.file();
            let keep = asked.since.elapsed() < patience && !silent.contains(&device(file));
            if !keep {
                given_up.push(Arc::clone(file));
            }
            keep
        });
        given_up
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No critical section leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some((ticket, request)) = self.take_request() {
            let kind = catch_unwind(AssertUnwindSafe(|| (self.open)(&request)));
            let kind = kind.unwrap_or_else(|_| RegionKind::File(Arc::clone(request.file().unanswered())));
            let mut state = self.lock();
            state.running.retain(|running| running.ticket != ticket);
            state.finished.push((Arc::clone(request.file()), kind));
            drop(state);
            self.answers.notify_all();
            // Its device answers: others may have waited for that.
            self.work.notify_all();
        }
        self.lock().threads -= 1;
    }

    fn take_request(&self) -> Option<(u64, OpenRequest)> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            let next = state.next().and_then(|at| state.waiting.remove(at));
            if let Some(Asked { request, since }) = next {
                let ticket = state.next_ticket;
                state.next_ticket += 1;
                let (file, begun) = (Arc::clone(request.file()), Instant::now());
                state.running.push(Running { ticket, file, asked: since, begun, given_up: false });
                return Some((ticket, request));
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn device(file: &OpeningFile) -> Device {
    let (major, minor, _) = file.wanted();
    (major, minor)
}

#[cfg(test)]
mod tests;
