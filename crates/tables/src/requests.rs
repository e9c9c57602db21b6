//! Requests that wait and those that workers have taken: which may be read now, and which devices do not answer.

use std::time::{Duration, Instant};

use crate::input::{Device, Input};
use crate::queue::Queue;

/// Only one file larger than this is compiled at a time, because of the memory needed.
pub(crate) const LARGE_FILE: u64 = 16 << 20;
/// When so many workers are blocked, nobody reads files of further devices that may not answer.
pub(crate) const MAX_BLOCKED: usize = 8;

pub(crate) type Request = Box<dyn Input>;

/// The requests of a compiler.
#[derive(Default)]
pub(crate) struct Requests {
    pub(crate) queue: Queue<Request>,
    /// Those that a worker has taken but not answered.
    running: Vec<Running>,
    /// Workers, without those that are blocked and have been replaced.
    pub(crate) workers: usize,
    /// Nothing is taken any more.
    pub(crate) closed: bool,
}

/// Requests that were given up.
pub(crate) struct GivenUp {
    pub(crate) keys: Vec<u64>,
    /// Workers that are blocked by them.
    pub(crate) blocked: usize,
    /// Those that nobody had taken. To be dropped without the lock, because that closes files.
    pub(crate) untaken: Vec<Request>,
}

/// A request that a worker has taken.
struct Running {
    key: u64,
    large: bool,
    device: Option<Device>,
    /// When it was taken, or got on with the file for the last time.
    moved: Instant,
    /// The worker waits for room among the answers.
    is_answered: bool,
    /// The file system does not answer, and another worker has taken the place of this one.
    given_up: bool,
}

impl Requests {
    /// Takes the next request that may be read now.
    pub(crate) fn take(&mut self) -> Option<(u64, Request)> {
        let Self { queue, running, workers, .. } = self;
        let reading = || running.iter().filter(|running| !running.is_answered && !running.given_up);
        let has_large = reading().any(|running| running.large);
        // One worker is left for the files of this machine.
        let doubtful = reading().filter(|running| running.device.is_some()).count();
        let has_room = doubtful < workers.saturating_sub(1).max(1);
        let (key, request) = queue.pop(|request| {
            let may_answer = |device| has_room && !is_silent(running, device);
            !(has_large && is_large(request)) && request.doubtful_device().is_none_or(may_answer)
        })?;
        running.push(Running {
            key,
            large: is_large(&request),
            device: request.doubtful_device(),
            moved: Instant::now(),
            is_answered: false,
            given_up: false,
        });
        Some((key, request))
    }

    /// Takes the next request that waits for a device that does not answer.
    fn take_silent(&mut self) -> Option<(u64, Request)> {
        let Self { queue, running, .. } = self;
        queue.pop(|request| request.doubtful_device().is_some_and(|device| is_silent(running, device)))
    }

    /// Gives up files that were not got on with for `patience` at `now`, and those that wait for the same device.
    pub(crate) fn give_up(&mut self, patience: Duration, now: Instant) -> GivenUp {
        let is_stuck = |running: &&mut Running| {
            running.device.is_some()
                && !running.is_answered
                && !running.given_up
                && now.saturating_duration_since(running.moved) >= patience
        };
        let mut keys = Vec::new();
        for running in self.running.iter_mut().filter(is_stuck) {
            running.given_up = true;
            keys.push(running.key);
        }
        let blocked = keys.len();
        self.workers -= blocked;
        let (more, untaken): (Vec<u64>, Vec<Request>) = std::iter::from_fn(|| self.take_silent()).unzip();
        keys.extend(more);
        GivenUp { keys, blocked, untaken }
    }

    /// A part of the file has been read.
    pub(crate) fn moved(&mut self, key: u64) {
        if let Some(running) = self.of(key) {
            running.moved = Instant::now();
        }
    }

    /// The file has been read; its answer is still to be taken.
    pub(crate) fn answered(&mut self, key: u64) {
        if let Some(running) = self.of(key) {
            running.is_answered = true;
        }
    }

    /// The answer was taken. Whether another worker has taken the place of this one.
    pub(crate) fn end(&mut self, key: u64) -> bool {
        let at = self.running.iter().position(|running| running.key == key);
        at.is_some_and(|at| self.running.swap_remove(at).given_up)
    }

    /// Requests that wait or are in progress.
    pub(crate) fn pending(&self) -> usize {
        let in_progress = |running: &&Running| !running.given_up && !running.is_answered;
        self.queue.len() + self.running.iter().filter(in_progress).count()
    }

    fn of(&mut self, key: u64) -> Option<&mut Running> {
        self.running.iter_mut().find(|running| running.key == key)
    }
}

/// Whether a device is not to be read: a read of it is not answered, or too many workers are blocked.
fn is_silent(running: &[Running], device: Device) -> bool {
    let mut blocked = running.iter().filter(|running| running.given_up);
    blocked.clone().count() >= MAX_BLOCKED || blocked.any(|running| running.device == Some(device))
}

fn is_large(request: &Request) -> bool {
    request.size() > LARGE_FILE
}
