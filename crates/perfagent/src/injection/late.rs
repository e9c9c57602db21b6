//! Switching on processes that turn up while the capture goes on, on threads of their own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::engine::Engine;
use super::outcome::Outcome;
use super::refused::Refused;

/// Processes that are switched at the same time.
const THREADS: usize = 4;

/// A process that waits to be switched on.
struct Waiting {
    pid: u32,
    /// Gets the outcome of one that the user gave by number; of others it is told in warnings.
    reply: Option<Sender<Result<(), Refused>>>,
}

/// The outcome, yet to come, of a process that the user gave by number.
pub(super) struct Promise(Receiver<Result<(), Refused>>);

impl Promise {
    /// None: not yet. An error without a process: the capture has ended before.
    pub(super) fn outcome(&self) -> Option<Result<(), Option<Refused>>> {
        match self.0.try_recv() {
            Ok(outcome) => Some(outcome.map_err(Some)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(None)),
        }
    }
}

/// The threads that switch late processes on. Dropping it ends them, each after the process that it is about to switch.
pub(super) struct LateProcesses {
    /// None while it ends.
    queue: Option<Sender<Waiting>>,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl LateProcesses {
    pub(super) fn start(engine: &Arc<Engine>, outcome: &Arc<Mutex<Outcome>>) -> std::io::Result<Self> {
        let (queue, waiting) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        let is_over = Arc::new(AtomicBool::new(false));
        let mut late = Self { queue: Some(queue), is_over: Arc::clone(&is_over), threads: Vec::new() };
        for _ in 0..THREADS {
            let (engine, outcome) = (Arc::clone(engine), Arc::clone(outcome));
            let (waiting, is_over) = (Arc::clone(&waiting), Arc::clone(&is_over));
            let switch = move || switch_on(&engine, &outcome, &waiting, &is_over);
            late.threads.push(sys::thread::spawn_quiet_thread("python", switch)?);
        }
        Ok(late)
    }

    /// Switches a process on as soon as a thread is free.
    pub(super) fn add(&self, pid: u32) {
        self.send(Waiting { pid, reply: None });
    }

    /// The same for a process that the user gave by number.
    pub(super) fn add_named(&self, pid: u32) -> Promise {
        let (reply, outcome) = channel();
        self.send(Waiting { pid, reply: Some(reply) });
        Promise(outcome)
    }

    fn send(&self, waiting: Waiting) {
        // The threads wait as long as this end is open.
        let _ = self.queue.as_ref().map(|queue| queue.send(waiting));
    }
}

fn switch_on(
    engine: &Engine,
    outcome: &Mutex<Outcome>,
    waiting: &Mutex<Receiver<Waiting>>,
    is_over: &AtomicBool,
) {
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Waiting { pid, reply }) = next else { return };
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let added = engine.add(pid);
        let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
        match (&added, &reply) {
            (Ok(()), _) => outcome.is_on(pid),
            (Err(refused), None) => outcome.refused(refused),
            (Err(_), Some(_)) => {}
        }
        // The asking end may have gone meanwhile.
        let _ = reply.map(|reply| reply.send(added));
    }
}

impl Drop for LateProcesses {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.queue = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
