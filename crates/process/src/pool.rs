//! Worker threads for calls that may block for as long as a file system likes, so that one that does not answer holds up nothing but
//! its own files.
//!
//! A worker that is busy with one call for a moment counts as blocked; another one takes its place, up to a limit. Of one device at most
//! a few workers are blocked: further calls for that device wait. A call without a result is given up after a while, and those that wait
//! for the same device with it, until it answers again. A user without privileges may mount many file systems that do not answer, so
//! some workers are reserved for devices that have answered, and some for block devices.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Workers that are not blocked, at most.
pub(crate) const WORKERS: usize = 4;
/// Workers in all, the blocked ones among them, while calls of every device are taken.
pub(crate) const MAX_WORKERS: usize = 16;
/// Further workers for devices that have answered every call so far, and yet further ones for block devices.
const RESERVED: usize = 4;
/// Devices of which that is remembered.
const MAX_ANSWERING: usize = 4096;
/// Devices without a major number are file systems without a block device: FUSE and network file systems, but also overlays.
const NO_BLOCK_DEVICE: u32 = 0;
/// Blocked workers of one device.
pub(crate) const MAX_BLOCKED_OF_DEVICE: usize = 2;
/// A worker that is busy with one call for longer than this is blocked.
const BLOCKED: Duration = Duration::from_millis(100);
/// Time between two looks at blocked workers while results are awaited.
const SUPERVISION: Duration = Duration::from_millis(20);

/// Major and minor number.
pub type Device = (u32, u32);

/// Starts a thread.
pub type Spawn = Box<dyn Fn(Box<dyn FnOnce() + Send>) -> io::Result<()> + Send>;

/// What became of calls.
#[derive(Debug)]
pub struct Taken<T> {
    /// Calls with a result, by ticket. One that was given up may be here later.
    pub finished: Vec<(u64, T)>,
    /// Calls that were given up.
    pub given_up: Vec<u64>,
}

/// The workers. They end when it is dropped, each after the call in progress.
pub struct WorkerPool<T> {
    shared: Arc<Shared<T>>,
    spawn: Spawn,
    patience: Duration,
    /// A call was asked for since the results were last taken.
    asked: bool,
}

type Call<T> = Box<dyn FnOnce() -> T + Send>;

struct Shared<T> {
    state: Mutex<State<T>>,
    /// For workers.
    work: Condvar,
    /// For those who wait for results.
    results: Condvar,
}

struct State<T> {
    waiting: VecDeque<Waiting<T>>,
    running: Vec<Running>,
    finished: Vec<(u64, T)>,
    /// Devices that have answered a call, and none of whose calls was given up.
    answering: HashSet<Device>,
    /// Calls that panicked.
    failed: Vec<u64>,
    threads: usize,
    next_ticket: u64,
    closed: bool,
}

struct Waiting<T> {
    ticket: u64,
    device: Device,
    call: Call<T>,
    asked: Instant,
}

/// What a worker is busy with.
struct Running {
    ticket: u64,
    device: Device,
    asked: Instant,
    begun: Instant,
    given_up: bool,
}

impl<T: Send + 'static> WorkerPool<T> {
    /// A pool without a worker yet: they are started through `spawn`, which may prepare the thread, when they are needed. `patience`: a
    /// call without a result is given up after this time.
    #[must_use]
    pub fn new(spawn: Spawn, patience: Duration) -> Self {
        let state = State {
            waiting: VecDeque::new(),
            running: Vec::new(),
            answering: HashSet::new(),
            finished: Vec::new(),
            failed: Vec::new(),
            threads: 0,
            next_ticket: 0,
            closed: false,
        };
        let shared = Shared { state: Mutex::new(state), work: Condvar::new(), results: Condvar::new() };
        Self { shared: Arc::new(shared), spawn, patience, asked: false }
    }

    /// Asks for a call that is about a file of a device. Gives its ticket.
    pub fn ask(&mut self, device: Device, call: impl FnOnce() -> T + Send + 'static) -> u64 {
        let mut state = self.shared.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.push_back(Waiting { ticket, device, call: Box::new(call), asked: Instant::now() });
        let start = state.needs_worker();
        drop(state);
        self.asked = true;
        self.shared.work.notify_one();
        if start {
            // Without it the workers that there are do everything; without any, calls are given up.
            let _ = self.start_worker();
        }
        ticket
    }

    /// Another time after which a call without a result is given up.
    #[cfg(test)]
    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Whether a call was asked for since the results were last taken.
    #[must_use]
    pub fn was_asked(&self) -> bool {
        self.asked
    }

    /// Calls whose results are awaited.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.shared.lock().pending()
    }

    /// Whether no worker is busy, nothing waits and no result is left to be taken.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let state = self.shared.lock();
        state.running.is_empty() && state.waiting.is_empty() && state.finished.is_empty()
    }

    /// Whether all workers that there may be are blocked.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        let state = self.shared.lock();
        state.running.iter().filter(|running| running.is_blocked()).count() >= MAX_WORKERS
    }

    /// Takes the results, after waiting for all of them, but no longer than `wait`.
    pub fn take(&mut self, wait: Duration) -> Taken<T> {
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
                    .results
                    .wait_timeout_while(state, slice, |state| state.pending() > 0)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
                if state.pending() > 0 && Instant::now() < deadline {
                    continue;
                }
            }
            let finished = std::mem::take(&mut state.finished);
            let failed = std::mem::take(&mut state.failed);
            return Taken { finished, given_up: given_up.into_iter().chain(failed).collect() };
        }
    }

    /// Gives calls up, and starts workers in the place of blocked ones.
    fn supervise(&self) -> Vec<u64> {
        let mut state = self.shared.lock();
        let given_up = state.give_up(self.patience);
        let start = state.needs_worker();
        drop(state);
        if start {
            let _ = self.start_worker();
        }
        given_up
    }

    /// Starts a worker before it is needed.
    ///
    /// # Errors
    /// `spawn` failed.
    pub fn start_worker(&self) -> io::Result<()> {
        self.shared.lock().threads += 1;
        let shared = Arc::clone(&self.shared);
        let started = (self.spawn)(Box::new(move || shared.work()));
        if started.is_err() {
            self.shared.lock().threads -= 1;
        }
        started
    }
}

impl<T> Drop for WorkerPool<T> {
    fn drop(&mut self) {
        let abandoned = {
            let mut state = self.shared.lock();
            state.closed = true;
            std::mem::take(&mut state.waiting)
        };
        self.shared.work.notify_all();
        drop(abandoned);
    }
}

impl Running {
    fn is_blocked(&self) -> bool {
        self.begun.elapsed() >= BLOCKED
    }
}

impl<T> State<T> {
    fn pending(&self) -> usize {
        self.waiting.len() + self.running.iter().filter(|running| !running.given_up).count()
    }

    /// The next call that a worker may take.
    fn next(&self) -> Option<usize> {
        let blocked: Vec<Device> = self.devices_of(Running::is_blocked).collect();
        let silent: Vec<Device> = self.devices_of(|running| running.given_up).collect();
        let may_be_asked = |waiting: &Waiting<T>| {
            let blocked = blocked.iter().filter(|blocked| **blocked == waiting.device).count();
            blocked < MAX_BLOCKED_OF_DEVICE
                && !silent.contains(&waiting.device)
                && self.running.len() < self.most_workers(waiting.device)
        };
        self.waiting.iter().position(may_be_asked)
    }

    /// How many workers may be busy, with this call among them.
    fn most_workers(&self, device: Device) -> usize {
        if device.0 != NO_BLOCK_DEVICE {
            MAX_WORKERS + 2 * RESERVED
        } else if self.answering.contains(&device) {
            MAX_WORKERS + RESERVED
        } else {
            MAX_WORKERS
        }
    }

    /// The device of each worker that is chosen.
    fn devices_of(&self, chosen: impl Fn(&Running) -> bool) -> impl Iterator<Item = Device> {
        self.running.iter().filter(move |running| chosen(running)).map(|running| running.device)
    }

    /// Whether a further worker would have something to do.
    fn needs_worker(&self) -> bool {
        let blocked = self.running.iter().filter(|running| running.is_blocked()).count();
        let idle = self.threads.saturating_sub(self.running.len());
        idle < self.waiting.len()
            && self.threads.saturating_sub(blocked) < WORKERS
            && self.threads < MAX_WORKERS + 2 * RESERVED
            && (idle == 0 || self.waiting.len() > 1)
            && self.next().is_some()
    }

    /// A call has come back.
    fn has_ended(&mut self, ticket: u64) {
        let Some(at) = self.running.iter().position(|running| running.ticket == ticket) else { return };
        let call = self.running.swap_remove(at);
        if !call.given_up && self.answering.len() < MAX_ANSWERING {
            self.answering.insert(call.device);
        }
    }

    /// Takes the calls that are awaited for too long, and those that wait for a device with such a call.
    fn give_up(&mut self, patience: Duration) -> Vec<u64> {
        let mut given_up = Vec::new();
        for running in self.running.iter_mut().filter(|running| !running.given_up) {
            if running.asked.elapsed() >= patience {
                running.given_up = true;
                self.answering.remove(&running.device);
                given_up.push(running.ticket);
            }
        }
        let silent: Vec<Device> = self.devices_of(|running| running.given_up).collect();
        self.waiting.retain(|waiting| {
            let keep = waiting.asked.elapsed() < patience && !silent.contains(&waiting.device);
            if !keep {
                given_up.push(waiting.ticket);
            }
            keep
        });
        given_up
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // No critical section leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some((ticket, call)) = self.take_call() {
            let result = catch_unwind(AssertUnwindSafe(call));
            let mut state = self.lock();
            state.has_ended(ticket);
            match result {
                Ok(result) => state.finished.push((ticket, result)),
                Err(_) => state.failed.push(ticket),
            }
            drop(state);
            self.results.notify_all();
            // Its device answers: others may have waited for that.
            self.work.notify_all();
        }
        self.lock().threads -= 1;
    }

    fn take_call(&self) -> Option<(u64, Call<T>)> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            let next = state.next().and_then(|at| state.waiting.remove(at));
            if let Some(Waiting { ticket, device, call, asked }) = next {
                state.running.push(Running { ticket, device, asked, begun: Instant::now(), given_up: false });
                return Some((ticket, call));
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests;
