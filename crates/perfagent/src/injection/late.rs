//! Switching on processes that turn up while the capture goes on, on threads of their own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::engine::Engine;
use super::outcome::Outcome;

/// Processes that are switched at the same time.
const THREADS: usize = 4;

/// The threads that switch late processes on. Dropping it ends them, each after the process that it is about to switch.
pub(super) struct LateProcesses {
    /// None while it ends.
    queue: Option<Sender<u32>>,
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
        // The threads wait as long as this end is open.
        let _ = self.queue.as_ref().map(|queue| queue.send(pid));
    }
}

fn switch_on(
    engine: &Engine,
    outcome: &Mutex<Outcome>,
    waiting: &Mutex<Receiver<u32>>,
    is_over: &AtomicBool,
) {
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(pid) = next else { return };
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let added = engine.add(pid);
        let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
        match added {
            Ok(()) => outcome.is_on(pid),
            Err(refused) => outcome.refused(&refused),
        }
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
