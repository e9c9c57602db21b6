//! Worker threads that compile the tables of files, by priority.
//!
//! A file system may not answer a read for as long as it likes, and the worker that reads cannot be stopped. Such a file is given up after
//! a while, another worker takes the place of the blocked one, up to a limit, and nobody reads further files of the same device until it
//! answers again.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::mpsc;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::SyncSender;
use std::time::Duration;
use std::time::Instant;

use unwind::Table;

use crate::cache::Cache;
use crate::cache::CacheError;
use crate::input::Content;
use crate::input::Input;
use crate::key::CacheKey;
use crate::key::Owner;
use crate::key::Stamp;
use crate::requests::GivenUp;
use crate::requests::Request;
use crate::requests::Requests;

/// Limit of unread answers; a worker waits to send another one.
const MAX_ANSWERS: usize = 16;

/// Files up to this size are also found by content. For this they are copied: a mapped file can change between hashing
/// and compiling.
const COPIED_FILE: usize = 8 << 20;

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be read.
    #[error("reading a file for its unwind table: {0}")]
    Read(#[source] io::Error),
    /// A part of the file could not be read. A table of the rest could be wrong.
    #[error("a part of it could not be read: it was truncated meanwhile, or its disk fails (see dmesg)")]
    Incomplete,
    /// The file could not be compiled.
    #[error(transparent)]
    Compile(#[from] unwind::Error),
    /// The compiler panicked. This is a defect of this program; other files are not affected.
    #[error("compiling an unwind table panicked; please report this with the file")]
    Panicked,
}

/// Where a table came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From the disk cache.
    Cached,
    /// Compiled.
    Compiled,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// The key of the request.
    pub key: u64,
    /// The table, or why there is none.
    pub table: Result<Arc<Table>, Error>,
    /// Where it came from.
    pub source: Source,
    /// The worker's time for it.
    pub elapsed: Duration,
    /// Why the compiled table is not in the cache. The next run compiles it again.
    pub not_cached: Option<CacheError>,
}

struct Shared {
    requests: Mutex<Requests>,
    changed: Condvar,
    cache: Option<Cache>,
    answers: SyncSender<Answer>,
}

/// Starts a thread of a name.
type Spawn = Box<dyn FnMut(String, Box<dyn FnOnce() + Send>) -> io::Result<()> + Send>;

/// The worker threads. They end when it is dropped, after the table in progress.
pub struct Compiler {
    shared: Arc<Shared>,
    spawn: Spawn,
    /// Workers started so far.
    started: usize,
}

/// Starts a named thread. For callers without special needs.
///
/// # Errors
/// The thread could not be created.
pub fn spawn_thread(name: String, body: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    std::thread::Builder::new().name(name).spawn(body).map(|_| ())
}

impl Compiler {
    /// Starts `threads` workers (at least one) named `perfagent-uwN` through `spawn`, which may prepare the thread, for
    /// example block its signals. The receiver gets the answers.
    ///
    /// # Errors
    /// `spawn` failed. Workers that were already started end.
    pub fn start(
        threads: usize,
        cache: Option<Cache>,
        spawn: impl FnMut(String, Box<dyn FnOnce() + Send>) -> io::Result<()> + Send + 'static,
    ) -> io::Result<(Self, Receiver<Answer>)> {
        let (answers, receiver) = mpsc::sync_channel(MAX_ANSWERS);
        let shared = Arc::new(Shared { requests: Mutex::default(), changed: Condvar::new(), cache, answers });
        let mut compiler = Self { shared, spawn: Box::new(spawn), started: 0 };
        for _ in 0..threads.max(1) {
            compiler.start_worker()?;
        }
        Ok((compiler, receiver))
    }

    fn start_worker(&mut self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        (self.spawn)(format!("perfagent-uw{}", self.started), Box::new(move || shared.work()))?;
        self.started += 1;
        self.shared.lock().workers += 1;
        Ok(())
    }

    /// Gives up files whose file system has not answered for `patience`, and those that wait for the same device. Gives their keys. The
    /// answer for a file that was being read may come later after all. To be called from time to time: it starts workers in the place of
    /// those that are blocked.
    pub fn give_up(&mut self, patience: Duration) -> Vec<u64> {
        let GivenUp { keys, blocked, untaken } = self.shared.lock().give_up(patience, Instant::now());
        drop(untaken);
        // If a thread cannot be started, the workers that there are do everything.
        let _ = (0..blocked).try_for_each(|_| self.start_worker());
        keys
    }

    /// Requests a table.
    ///
    /// False if the key already waits or [`crate::MAX_PENDING`] requests wait; then there is no answer.
    #[must_use]
    pub fn submit(&self, key: u64, priority: u64, file: Box<dyn Input>) -> bool {
        let accepted = self.shared.lock().queue.push(key, priority, file);
        self.shared.changed.notify_one();
        accepted
    }

    /// Raises the priority of a waiting request by one, for another sample in the file.
    pub fn bump(&self, key: u64) -> bool {
        self.shared.lock().queue.bump(key)
    }

    /// Requests that wait or are in progress.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.shared.lock().pending()
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        let abandoned = {
            let mut requests = self.shared.lock();
            requests.closed = true;
            std::mem::take(&mut requests.queue)
        };
        self.shared.changed.notify_all();
        // Outside the lock, because dropping requests closes files.
        drop(abandoned);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Requests> {
        // No critical section leaves the state half changed.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some((key, request)) = self.next() {
            let start = Instant::now();
            let moved = || self.lock().moved(key);
            let made = std::panic::catch_unwind(AssertUnwindSafe(|| self.make(request, &moved)));
            let (table, source, not_cached) = made.unwrap_or((Err(Error::Panicked), Source::Compiled, None));
            let answer = Answer { key, table, source, elapsed: start.elapsed(), not_cached };
            self.lock().answered(key);
            // A large file may be compiled now, or files of a device that answers again.
            self.changed.notify_all();
            let taken = self.answers.send(answer).is_ok();
            let is_replaced = self.lock().end(key);
            self.changed.notify_all();
            if !taken || is_replaced {
                return;
            }
        }
    }

    fn next(&self) -> Option<(u64, Request)> {
        let mut requests = self.lock();
        loop {
            if requests.closed {
                return None;
            }
            if let Some(next) = requests.take() {
                return Some(next);
            }
            requests = self.changed.wait(requests).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// `moved` is called whenever a part of the file has been read.
    fn make(
        &self,
        file: Request,
        moved: &dyn Fn(),
    ) -> (Result<Arc<Table>, Error>, Source, Option<CacheError>) {
        let Some(cache) = &self.cache else {
            return (read_and_compile(&*file, moved), Source::Compiled, None);
        };
        let stamp = file.stamp();
        if let Some(table) = stamp.and_then(|stamp| cache.load(&CacheKey::File(stamp))) {
            return (Ok(Arc::new(table)), Source::Cached, None);
        }
        // The stamp identifies the bytes that are read only if it was settled before and is the same afterwards.
        let settled = stamp.filter(Stamp::is_settled);
        let owner = |digest| {
            let still = |stamp: &Stamp| file.stamp().as_ref() == Some(stamp);
            Owner { stamp: settled.filter(still), digest }
        };
        let content = match file.read() {
            Ok(content) => content,
            Err(error) => return (Err(Error::Read(error)), Source::Compiled, None),
        };
        let (table, source, owner) = if content.bytes().len() <= COPIED_FILE {
            let copy = content.bytes().to_vec();
            content.release();
            moved();
            if !content.is_whole() {
                return (Err(Error::Incomplete), Source::Compiled, None);
            }
            let digest = cache.digest(&copy);
            match digest.and_then(|digest| cache.load(&CacheKey::Content(digest))) {
                Some(table) => (Ok(Arc::new(table)), Source::Cached, owner(digest)),
                None => {
                    let table = unwind::compile(&copy).map(Arc::new).map_err(Error::from);
                    (table, Source::Compiled, owner(digest))
                }
            }
        } else {
            (compile(&*content, moved), Source::Compiled, owner(None))
        };
        let stored = match &table {
            Ok(table) if source == Source::Compiled || owner.stamp.is_some() => cache.store(owner, table),
            _ => Ok(()),
        };
        (table, source, stored.err())
    }
}

fn read_and_compile(file: &dyn Input, moved: &dyn Fn()) -> Result<Arc<Table>, Error> {
    compile(&*file.read().map_err(Error::Read)?, moved)
}

fn compile(content: &dyn Content, moved: &dyn Fn()) -> Result<Arc<Table>, Error> {
    let release = || {
        content.release();
        moved();
    };
    let table = unwind::compile_releasing(content.bytes(), &release);
    if content.is_whole() { Ok(Arc::new(table?)) } else { Err(Error::Incomplete) }
}

#[cfg(test)]
mod tests;
