//! Opens mapped files on worker threads, and gives up those whose file system does not answer.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::files::Files;
use crate::open_failure::OpenFailure;
use crate::open_request::OpenRequest;
use crate::pool::{Spawn, WorkerPool};
use crate::region::{OpeningFile, RegionKind};

/// A file without an answer is given up after this time. Stacks wait no longer for their unwind tables either.
const GIVE_UP: Duration = Duration::from_secs(5);

/// Files that were answered.
#[derive(Debug, Default)]
pub struct Opened {
    /// How many files have got their answer, those that were given up among them.
    pub answered: usize,
    /// Files that had been given up, and were opened after all. Processes that map them have to be read again.
    pub late: Vec<Arc<OpeningFile>>,
}

/// Opens a file; may block.
type Open = Arc<dyn Fn(&OpenRequest) -> RegionKind + Send + Sync>;

/// Files that are being opened.
pub struct Opener {
    files: Arc<Files>,
    open: Open,
    pool: WorkerPool<RegionKind>,
    /// By ticket; given up ones too.
    asked: HashMap<u64, Arc<OpeningFile>>,
}

impl Opener {
    /// Starts the first worker through `spawn`, which may prepare the thread; further ones when they are needed.
    ///
    /// # Errors
    /// `spawn` failed.
    pub fn start(files: Arc<Files>, spawn: Spawn) -> io::Result<Self> {
        let theirs = Arc::clone(&files);
        Self::with(files, Arc::new(move |request| request.open(&theirs)), spawn, GIVE_UP)
    }

    fn with(files: Arc<Files>, open: Open, spawn: Spawn, patience: Duration) -> io::Result<Self> {
        let pool = WorkerPool::new(spawn, patience);
        pool.start_worker()?;
        Ok(Self { files, open, pool, asked: HashMap::new() })
    }

    /// Asks for a file.
    pub fn ask(&mut self, request: OpenRequest) {
        let file = Arc::clone(request.file());
        let (major, minor, _) = file.wanted();
        // A comparison waits for the memory of a process, which may never come. That says nothing about the file's device.
        let source = request.process_of_copy().map_or((major, minor), |pid| (u32::MAX, pid));
        let open = Arc::clone(&self.open);
        let ticket = self.pool.ask(source, move || open(&request));
        self.asked.insert(ticket, file);
    }

    /// Whether something was asked for since the answers were last taken.
    #[must_use]
    pub fn was_asked(&self) -> bool {
        self.pool.was_asked()
    }

    /// Files that are awaited.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pool.pending()
    }

    /// Takes the answers, after waiting until all files are answered, but no longer than `wait`.
    pub fn take(&mut self, wait: Duration) -> Opened {
        let taken = self.pool.take(wait);
        let mut opened = Opened::default();
        for file in taken.given_up.iter().filter_map(|ticket| self.asked.get(ticket)) {
            if file.is_copy() {
                file.settle(RegionKind::Anonymous);
            } else if file.settle(RegionKind::File(Arc::clone(file.unanswered()))) {
                self.files.count_failure(file, OpenFailure::NoAnswer);
                opened.answered += 1;
            }
        }
        for (ticket, kind) in taken.finished {
            let Some(file) = self.asked.remove(&ticket) else { continue };
            let was_opened = kind.file().is_none_or(|file| file.failure().is_none());
            if file.settle(kind) {
                opened.answered += 1;
            } else if was_opened {
                opened.late.push(file);
            }
        }
        // Of those given up, only calls in progress can still answer.
        if self.pool.is_idle() {
            self.asked.clear();
        }
        opened
    }
}

#[cfg(test)]
mod tests;
