//! Worker threads that compile the tables of files, by priority.

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
use crate::key::CacheKey;
use crate::key::Owner;
use crate::key::Stamp;
use crate::queue::Queue;

/// Limit of unread answers; a worker waits to send another one.
const MAX_ANSWERS: usize = 16;

/// Only one file larger than this is compiled at a time, because of the memory needed.
const LARGE_FILE: u64 = 16 << 20;
/// Files up to this size are also found by content. For this they are copied: a mapped file can change between hashing
/// and compiling.
const COPIED_FILE: usize = 8 << 20;

/// The bytes of an ELF file, owned or mapped.
pub trait Content {
    /// All bytes.
    fn bytes(&self) -> &[u8];

    /// Releases the memory of the bytes read so far, if they can be read again.
    fn release(&self) {}

    /// Whether all bytes read so far are the file's: no unreadable part was replaced.
    fn is_whole(&self) -> bool {
        true
    }
}

impl Content for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// A file whose table is requested.
pub trait Input: Send {
    /// Identifies its current content; none if unknown.
    fn stamp(&self) -> Option<Stamp>;

    /// Approximate size in bytes.
    fn size(&self) -> u64;

    /// The content. A worker calls this only if the cache does not have the table.
    ///
    /// # Errors
    /// The file cannot be read.
    fn read(&self) -> io::Result<Box<dyn Content>>;
}

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

type Request = Box<dyn Input>;

#[derive(Default)]
struct State {
    queue: Queue<Request>,
    /// A worker compiles a large file.
    large: bool,
    /// Requests that a worker has taken but not answered.
    running: usize,
    closed: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    cache: Option<Cache>,
    answers: SyncSender<Answer>,
}

/// The worker threads. They end when it is dropped, after the table in progress.
pub struct Compiler {
    shared: Arc<Shared>,
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
        mut spawn: impl FnMut(String, Box<dyn FnOnce() + Send>) -> io::Result<()>,
    ) -> io::Result<(Self, Receiver<Answer>)> {
        let (answers, receiver) = mpsc::sync_channel(MAX_ANSWERS);
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), cache, answers });
        let compiler = Self { shared };
        for number in 0..threads.max(1) {
            let shared = Arc::clone(&compiler.shared);
            spawn(format!("perfagent-uw{number}"), Box::new(move || shared.work()))?;
        }
        Ok((compiler, receiver))
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
        let state = self.shared.lock();
        state.queue.len() + state.running
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        let abandoned = {
            let mut state = self.shared.lock();
            state.closed = true;
            std::mem::take(&mut state.queue)
        };
        self.shared.changed.notify_all();
        // Outside the lock, because dropping requests closes files.
        drop(abandoned);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No critical section leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some((key, request)) = self.next() {
            let start = Instant::now();
            let large = is_large(&request);
            let made = std::panic::catch_unwind(AssertUnwindSafe(|| self.make(request)));
            let (table, source, not_cached) = made.unwrap_or((Err(Error::Panicked), Source::Compiled, None));
            let answer = Answer { key, table, source, elapsed: start.elapsed(), not_cached };
            let taken = self.answers.send(answer).is_ok();
            let mut state = self.lock();
            state.running -= 1;
            if large {
                state.large = false;
                self.changed.notify_all();
            }
            drop(state);
            if !taken {
                return;
            }
        }
    }

    fn next(&self) -> Option<(u64, Request)> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            let busy = state.large;
            if let Some(next) = state.queue.pop(|request| !busy || !is_large(request)) {
                state.running += 1;
                state.large |= is_large(&next.1);
                return Some(next);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn make(&self, file: Request) -> (Result<Arc<Table>, Error>, Source, Option<CacheError>) {
        let Some(cache) = &self.cache else { return (read_and_compile(&*file), Source::Compiled, None) };
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
            (compile(&*content), Source::Compiled, owner(None))
        };
        let stored = match &table {
            Ok(table) if source == Source::Compiled || owner.stamp.is_some() => cache.store(owner, table),
            _ => Ok(()),
        };
        (table, source, stored.err())
    }
}

fn read_and_compile(file: &dyn Input) -> Result<Arc<Table>, Error> {
    compile(&*file.read().map_err(Error::Read)?)
}

fn compile(content: &dyn Content) -> Result<Arc<Table>, Error> {
    let release = || content.release();
    let table = unwind::compile_releasing(content.bytes(), &release);
    if content.is_whole() { Ok(Arc::new(table?)) } else { Err(Error::Incomplete) }
}

fn is_large(request: &Request) -> bool {
    request.size() > LARGE_FILE
}

#[cfg(test)]
mod tests;
