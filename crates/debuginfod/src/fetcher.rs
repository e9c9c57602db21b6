//! Fetches files on threads of its own, each once for all who ask.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use profile::BuildId;
use recording::Fetches;
use sys::thread::spawn_quiet_thread;

use crate::cache::{Cache, Room, find_in_client_cache};
use crate::cause::Cause;
use crate::content::Content;
use crate::download::{Limits, Servers};
use crate::entry::{Artifact, Kind};
use crate::settings::Settings;

/// Files that are fetched at the same time.
const PARALLEL: usize = 4;
/// Programs of which files are fetched in one run at most.
const MAX_PROGRAMS: usize = 4096;
/// Time between two checks whether a wait is given up.
const CHECK: Duration = Duration::from_millis(50);
/// How long the end waits for threads that a system call holds.
const LAST_THREADS: Duration = Duration::from_secs(1);

/// What is wanted of a program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Want {
    /// The program.
    pub build_id: BuildId,
    /// The program itself too, if there is no debug file of it: nobody here can read it.
    pub or_executable: bool,
}

/// A file that was fetched or was in the cache, open.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// What it is.
    pub kind: Kind,
    file: Arc<File>,
    /// The supplementary file that it needs. The reader finds it by its name in the cache.
    _alternate: Option<Arc<File>>,
}

impl Fetched {
    /// A path that opens it as long as this exists.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }
}

/// How far the search for a file is.
#[derive(Clone, Debug)]
pub enum Status {
    /// It goes on.
    Pending,
    /// It was found, or not.
    Done(Result<Fetched, Cause>),
}

/// Fetches files. Nothing is contacted, and no thread started, before something is asked for. Dropping it ends all that goes on.
pub struct Fetcher(Arc<Shared>);

struct Shared {
    settings: Settings,
    servers: Servers,
    /// Opened when it is first needed.
    cache: OnceLock<Option<Cache>>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    programs: HashMap<Want, Status>,
    queue: VecDeque<Want>,
    threads: usize,
    idle: usize,
    /// All is to end.
    ended: bool,
    last_success: Option<Instant>,
    figures: Fetches,
}

impl Fetcher {
    /// Does nothing yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        if let Err(error) = sys::filemap::guard_against_truncation() {
            tracing::warn!("guard against files that shrink while they are read: {error}");
        }
        let servers = Servers::new(&settings.servers, settings.max_file());
        let (cache, state, changed) = (OnceLock::new(), Mutex::default(), Condvar::new());
        Self(Arc::new(Shared { settings, servers, cache, state, changed }))
    }

    /// How far the search for a file is, which begins with the first call for it.
    #[must_use]
    pub fn ask(&self, want: &Want) -> Status {
        let mut state = self.0.state();
        if let Some(status) = state.programs.get(want) {
            return status.clone();
        }
        if state.ended || state.programs.len() >= MAX_PROGRAMS {
            return Status::Done(Err(if state.ended { Cause::Abandoned } else { Cause::Error }));
        }
        state.programs.insert(want.clone(), Status::Pending);
        state.queue.push_back(want.clone());
        if state.idle == 0 && state.threads < PARALLEL {
            let shared = Arc::clone(&self.0);
            match spawn_quiet_thread("fetch", move || shared.work()) {
                Ok(_) => state.threads += 1,
                Err(error) if state.threads == 0 => {
                    tracing::debug!(target: "perfagent", "debuginfod: start a thread: {error}");
                    state.queue.clear();
                    self.0.finish(&mut state, want, Err(Cause::Error));
                }
                Err(_) => {}
            }
        }
        self.0.changed.notify_all();
        state.programs.get(want).cloned().unwrap_or(Status::Done(Err(Cause::Error)))
    }

    /// Waits for all that was asked for. Ends early if `given_up` holds, and if nothing has arrived for as long as one file may take: what
    /// is missing then is missing for good.
    pub fn wait(&self, given_up: &dyn Fn() -> bool) {
        let begun = Instant::now();
        let mut state = self.0.state();
        loop {
            let is_pending = |status: &Status| matches!(status, Status::Pending);
            if !state.programs.values().any(is_pending) || given_up() {
                break;
            }
            let since = state.last_success.map_or(begun, |at| at.max(begun));
            if since.elapsed() >= self.0.settings.timeout {
                let late: Vec<Want> = state
                    .programs
                    .iter()
                    .filter(|(_, s)| is_pending(s))
                    .map(|(want, _)| want.clone())
                    .collect();
                state.queue.clear();
                for want in late {
                    self.0.finish(&mut state, &want, Err(Cause::Timeout));
                }
                break;
            }
            state = self.0.changed.wait_timeout(state, CHECK).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.figures.wait_ms += u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    }

    /// The figures so far, without files whose frames stay without names: that is the business of who asks.
    #[must_use]
    pub fn figures(&self) -> Fetches {
        let figures = self.0.state().figures;
        let retries = self.0.servers.retries.load(std::sync::atomic::Ordering::Relaxed);
        Fetches { retries, bytes: self.0.servers.received(), ..figures }
    }

    /// The directory of the cache. Opens it.
    #[must_use]
    pub fn directory(&self) -> Option<PathBuf> {
        self.0.cache().map(|cache| cache.root().to_owned())
    }
}

impl std::fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetcher").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.ended = true;
        state.queue.clear();
        self.0.changed.notify_all();
        drop(state);
        self.0.servers.shutdown();
        let (state, begun) = (self.0.state(), Instant::now());
        let running = |state: &mut State| state.threads > 0 && begun.elapsed() < LAST_THREADS;
        drop(self.0.changed.wait_timeout_while(state, LAST_THREADS, running));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cache(&self) -> Option<&Cache> {
        let open = || {
            let dir = self.settings.cache_dir.as_deref();
            match Cache::open(dir, self.settings.cache_max) {
                Ok(cache) => {
                    self.note(&cache.tidy().unwrap_or_default());
                    Some(cache)
                }
                Err(error) => {
                    tracing::debug!(target: "perfagent", "debuginfod: open the cache: {error}");
                    None
                }
            }
        };
        self.cache.get_or_init(open).as_ref()
    }

    /// What a thread does.
    fn work(&self) {
        let mut state = self.state();
        while !state.ended {
            let Some(want) = state.queue.pop_front() else {
                state.idle += 1;
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                continue;
            };
            drop(state);
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.fetch(&want)));
            state = self.state();
            self.finish(&mut state, &want, caught.unwrap_or(Err(Cause::Error)));
        }
        state.threads -= 1;
        self.changed.notify_all();
    }

    /// Enters a result, unless the search was given up.
    fn finish(&self, state: &mut State, want: &Want, result: Result<Fetched, Cause>) {
        let Some(status @ Status::Pending) = state.programs.get_mut(want) else { return };
        let figures = &mut state.figures;
        match &result {
            Ok(_) => state.last_success = Some(Instant::now()),
            Err(Cause::NotFound) => figures.not_found += 1,
            Err(Cause::Error) => figures.errors += 1,
            Err(Cause::Timeout) => figures.timeouts += 1,
            Err(Cause::TooLarge) => figures.too_large += 1,
            Err(Cause::Mismatch) => figures.mismatch += 1,
            Err(Cause::Abandoned) => {}
        }
        *status = Status::Done(result);
        self.changed.notify_all();
    }

    fn fetch(&self, want: &Want) -> Result<Fetched, Cause> {
        let deadline = Instant::now() + self.settings.timeout;
        let of = |kind| Artifact { kind, build_id: want.build_id.clone() };
        let (kind, (file, content)) = match self.any(&of(Kind::Debuginfo), deadline) {
            Ok(found) => (Kind::Debuginfo, found),
            Err(cause) if want.or_executable && cause != Cause::Abandoned => {
                // An artifact of its own, with a time of its own.
                let deadline = Instant::now() + self.settings.timeout;
                let found = self.any(&of(Kind::Executable), deadline).map_err(|other| other.max(cause))?;
                (Kind::Executable, found)
            }
            Err(cause) => return Err(cause),
        };
        let alternate = content.alternate.and_then(|build_id| {
            let deadline = Instant::now() + self.settings.timeout;
            self.one(&Artifact { kind: Kind::Debuginfo, build_id }, deadline).ok()
        });
        let alternate = alternate.map(|(file, _)| Arc::new(file));
        Ok(Fetched { kind, file: Arc::new(file), _alternate: alternate })
    }

    /// One file: from the cache, from that of elfutils' client, or from a server. A supplementary file must be in our cache: its reader looks
    /// there.
    fn any(&self, artifact: &Artifact, deadline: Instant) -> Result<(File, Content), Cause> {
        let is_ours = self.cache().is_some_and(|cache| cache.has(artifact));
        let theirs = self.settings.client_cache.as_deref().filter(|_| !is_ours);
        match theirs.and_then(|dir| find_in_client_cache(dir, artifact)) {
            Some(found) => {
                self.state().figures.hits += 1;
                Ok((found.file, found.content))
            }
            None => self.one(artifact, deadline),
        }
    }

    /// One file: from the cache, or from a server.
    fn one(&self, artifact: &Artifact, deadline: Instant) -> Result<(File, Content), Cause> {
        let cache = self.cache().ok_or(Cause::Error)?;
        if let Some(found) = cache.find(artifact) {
            self.state().figures.hits += 1;
            return Ok((found.file, found.content));
        }
        if cache.is_missing(artifact, &self.settings.servers) {
            return Err(Cause::NotFound);
        }
        let goes_on = || Instant::now() < deadline && !self.state().ended;
        let error = |error: std::io::Error| {
            tracing::debug!(target: "perfagent", "debuginfod: {artifact:?}: {error}");
            Cause::Error
        };
        let Some(_lock) = cache.lock(artifact, goes_on).map_err(error)? else { return Err(Cause::Timeout) };
        // Another process may have fetched it, or learned that nobody has it.
        if let Some(found) = cache.find(artifact) {
            self.state().figures.hits += 1;
            return Ok((found.file, found.content));
        }
        if cache.is_missing(artifact, &self.settings.servers) {
            return Err(Cause::NotFound);
        }
        self.state().figures.misses += 1;
        self.note(&cache.tidy().unwrap_or_default());
        let draft = cache.draft(artifact).map_err(error)?;
        let limits = Limits { deadline, pause: &|pause| self.pause(pause) };
        match self.servers.download(artifact, &draft.file, &limits) {
            Ok(content) => {
                self.state().figures.fetched += 1;
                let (file, room) = cache.store(draft, artifact).map_err(error)?;
                self.note(&room);
                Ok((file, content))
            }
            Err(cause) => {
                if cause == Cause::NotFound {
                    cache.set_missing(artifact, &self.settings.servers);
                }
                Err(cause)
            }
        }
    }

    fn note(&self, room: &Room) {
        let mut state = self.state();
        state.figures.evicted += room.removed;
        state.figures.cache_bytes = room.bytes;
    }

    /// Waits. False if all is to end.
    fn pause(&self, pause: Duration) -> bool {
        let state = self.state();
        let waited = self.changed.wait_timeout_while(state, pause, |state| !state.ended);
        !waited.unwrap_or_else(PoisonError::into_inner).0.ended
    }
}
