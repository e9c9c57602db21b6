//! A thread that reads files for the thread that finds names: a file system may not answer for as long as it likes.
//!
//! A call that does not get on is given up after a while. Its thread is left behind with all that it has read, another one takes its place,
//! and nobody asks the same place again until it answers.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use sys::thread::{Activity, spawn_quiet_thread};

/// A call that uses no CPU for this long, and does not wait for one, is given up.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Threads that are left behind at most. Each holds what it has read.
const MAX_LEFT: usize = 4;
/// Time between two checks whether a call gets on.
const CHECK: Duration = Duration::from_millis(100);

type Job<S> = Box<dyn FnOnce(&mut S) + Send>;

/// A thread with a state of its own, `S`, on which calls are made. `K` tells the places apart that may not answer.
pub(super) struct FileThread<S, K> {
    make: Arc<dyn Fn() -> S + Send + Sync>,
    running: Option<Running<S>>,
    left: Vec<Left<K>>,
    patience: Duration,
}

struct Running<S> {
    jobs: Sender<Job<S>>,
    activity: Activity,
    has_ended: Arc<AtomicBool>,
}

/// A thread that was left behind.
struct Left<K> {
    place: K,
    has_ended: Arc<AtomicBool>,
}

/// The place does not answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoAnswer;

/// Tells that its thread has ended.
struct End(Arc<AtomicBool>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl<S: 'static, K: PartialEq> FileThread<S, K> {
    /// Starts nothing yet. `make` makes the state, on the thread.
    pub(super) fn new(make: impl Fn() -> S + Send + Sync + 'static) -> Self {
        Self { make: Arc::new(make), running: None, left: Vec::new(), patience: PATIENCE }
    }

    /// Makes a call that is about a place, and waits for it. A panic of the call goes on here.
    pub(super) fn call<T: Send + 'static>(
        &mut self,
        place: K,
        call: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        self.left.retain(|left| !left.has_ended.load(Ordering::Acquire));
        if self.left.len() >= MAX_LEFT || self.left.iter().any(|left| left.place == place) {
            return Err(NoAnswer);
        }
        self.start()?;
        let Some(running) = &self.running else { return Err(NoAnswer) };
        let (done, result) = channel();
        let job = move |state: &mut S| {
            // What is asked next is another file.
            let _ = done.send(catch_unwind(AssertUnwindSafe(|| call(state))));
        };
        if running.jobs.send(Box::new(job)).is_err() {
            self.running = None;
            return Err(NoAnswer);
        }
        match wait(&result, running.activity, self.patience) {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(panic)) => resume_unwind(panic),
            None => {
                let has_ended = self.running.take().map(|running| running.has_ended);
                self.left.extend(has_ended.map(|has_ended| Left { place, has_ended }));
                Err(NoAnswer)
            }
        }
    }

    /// Makes a call that reads nothing, if there is a thread: without one there is no state.
    pub(super) fn tell<T: Send + 'static>(
        &mut self,
        place: K,
        call: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> Option<T> {
        self.running.as_ref()?;
        self.call(place, call).ok()
    }

    fn start(&mut self) -> Result<(), NoAnswer> {
        if self.running.is_some() {
            return Ok(());
        }
        let (jobs, queue) = channel::<Job<S>>();
        let (tell, told) = channel();
        let has_ended = Arc::new(AtomicBool::new(false));
        let (make, end) = (Arc::clone(&self.make), End(Arc::clone(&has_ended)));
        let body = move || {
            let _end = end;
            let Ok(activity) = Activity::of_this_thread() else { return };
            let _ = tell.send(activity);
            let mut state = make();
            queue.into_iter().for_each(|job| job(&mut state));
        };
        spawn_quiet_thread("file", body).map_err(|_| NoAnswer)?;
        let activity = told.recv().map_err(|_| NoAnswer)?;
        self.running = Some(Running { jobs, activity, has_ended });
        Ok(())
    }
}

/// Waits for a result. `None`: the thread does not get on, or has ended.
fn wait<T>(result: &Receiver<T>, activity: Activity, patience: Duration) -> Option<T> {
    let (mut cpu, mut moved) = (activity.cpu_time(), Instant::now());
    loop {
        match result.recv_timeout(CHECK.min(patience)) {
            Ok(result) => return Some(result),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = activity.cpu_time();
        if now != cpu || !activity.is_waiting() {
            (cpu, moved) = (now, Instant::now());
        } else if moved.elapsed() >= patience {
            // The result may have come meanwhile.
            return result.try_recv().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts its calls.
    fn counter() -> FileThread<u32, u32> {
        FileThread { patience: Duration::from_millis(200), ..FileThread::new(|| 0) }
    }

    fn add(thread: &mut FileThread<u32, u32>, place: u32) -> Result<u32, NoAnswer> {
        thread.call(place, |calls| {
            *calls += 1;
            *calls
        })
    }

    /// A call that returns when the sender is dropped.
    fn block(thread: &mut FileThread<u32, u32>, place: u32) -> Sender<()> {
        let (hold, held) = channel::<()>();
        assert_eq!(thread.call(place, move |_| held.recv().is_ok()), Err(NoAnswer));
        hold
    }

    #[test]
    fn a_place_that_does_not_answer_is_given_up_and_asked_again_when_it_does() {
        let mut thread = counter();
        assert_eq!(thread.tell(1, |calls| *calls), None, "there is no state yet");
        assert_eq!([add(&mut thread, 1), add(&mut thread, 2)], [Ok(1), Ok(2)]);
        let hold = block(&mut thread, 1);
        assert_eq!(add(&mut thread, 1), Err(NoAnswer), "no thread is asked");
        assert_eq!(add(&mut thread, 2), Ok(1), "another thread, with a state of its own");
        drop(hold);
        testkit::until("the place answers", || add(&mut thread, 1).is_ok());
    }

    #[test]
    fn no_more_threads_are_left_behind_than_allowed() {
        let mut thread = counter();
        let held: Vec<_> = (0..MAX_LEFT as u32).map(|place| block(&mut thread, place)).collect();
        assert_eq!(add(&mut thread, 99), Err(NoAnswer));
        drop(held);
        testkit::until("the places answer", || add(&mut thread, 99).is_ok());
    }

    #[test]
    fn a_long_computation_is_waited_for() {
        let mut thread = counter();
        let computed = thread.call(1, |_| {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(600) {}
            7
        });
        assert_eq!(computed, Ok(7));
    }

    #[test]
    fn a_panic_goes_on_in_the_caller_and_ends_nothing() {
        let mut thread = counter();
        let panicked = catch_unwind(AssertUnwindSafe(|| thread.call(1, |_| -> u32 { panic!("a defect") })));
        assert!(panicked.is_err());
        assert_eq!(add(&mut thread, 1), Ok(1));
    }
}
