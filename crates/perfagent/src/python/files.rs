//! Which mapped files hold an interpreter. Each file is read once, by a worker.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use interpreters::python::{Interpreter, InterpreterError};
use process::{FileKey, FileKind, Image, MappedFile, Region, RegionKind, WorkerPool};

/// A file that cannot be read within this time counts as one without an interpreter.
const PATIENCE: Duration = Duration::from_secs(5);

/// How names of files with an interpreter begin.
const NAMES: [&str; 3] = ["libpython", "python", "libpypy"];

/// What a file holds. `Err`: an interpreter whose frames cannot be walked.
type Content = Result<Option<Interpreter>, InterpreterError>;

enum Decision {
    /// The number of the request.
    Awaited(u64),
    Nothing,
    Unsupported(InterpreterError),
    Interpreter(Arc<Interpreter>),
}

struct Entry {
    file: Weak<MappedFile>,
    decision: Decision,
}

/// What is known of the interpreter of an image.
#[derive(Debug)]
pub(crate) enum InImage<'a> {
    /// There is none.
    Nothing,
    /// Files that may hold one are still being opened or read.
    NotKnownYet,
    /// Its frames cannot be walked.
    Unsupported(InterpreterError),
    /// There is one, with code in this region.
    Interpreter(&'a Arc<Interpreter>, &'a Region),
}

/// The interpreters in the files of all processes.
pub(crate) struct InterpreterFiles {
    entries: HashMap<FileKey, Entry>,
    workers: WorkerPool<Content>,
}

impl Default for InterpreterFiles {
    fn default() -> Self {
        let spawn = |body: Box<dyn FnOnce() + Send>| {
            let body = || {
                crate::priority::go_with_others();
                body();
            };
            sys::thread::spawn_quiet_thread("interpreter", body).map(drop)
        };
        Self { entries: HashMap::new(), workers: WorkerPool::new(Box::new(spawn), PATIENCE) }
    }
}

impl InterpreterFiles {
    /// The interpreter of a process. Files that may hold one are asked for at first sight.
    pub(crate) fn in_image<'a>(&'a mut self, image: &'a Image) -> InImage<'a> {
        let exe = image.exe.as_deref();
        let mut opening = false;
        let mut candidates: Vec<&Region> = Vec::new();
        for region in image.regions().iter() {
            match region.file() {
                Some(file) => {
                    let is_new = candidates
                        .last()
                        .and_then(|last| last.file())
                        .is_none_or(|last| !Arc::ptr_eq(last, file));
                    if is_new && may_hold_interpreter(file, exe) {
                        candidates.push(region);
                    }
                }
                None => opening |= matches!(region.kind(), RegionKind::Opening(_)),
            }
        }
        for region in &candidates {
            region.file().into_iter().for_each(|file| self.ask(file));
        }
        let mut unsupported = None;
        for region in candidates {
            match region.file().and_then(|file| self.entries.get(&file.key())).map(|entry| &entry.decision) {
                Some(Decision::Interpreter(interpreter)) => return InImage::Interpreter(interpreter, region),
                Some(Decision::Unsupported(error)) => unsupported = unsupported.or(Some(*error)),
                Some(Decision::Awaited(_)) => opening = true,
                Some(Decision::Nothing) | None => {}
            }
        }
        match unsupported {
            _ if opening => InImage::NotKnownYet,
            Some(error) => InImage::Unsupported(error),
            None => InImage::Nothing,
        }
    }

    fn ask(&mut self, file: &Arc<MappedFile>) {
        let workers = &mut self.workers;
        self.entries.entry(file.key()).or_insert_with(|| {
            let identity = file.identity();
            let device = (identity.dev_major, identity.dev_minor);
            let wanted = Arc::clone(file);
            let ticket = workers.ask(device, move || content(&wanted));
            Entry { file: Arc::downgrade(file), decision: Decision::Awaited(ticket) }
        });
    }

    /// The interpreter of a file, if that is known by now.
    pub(crate) fn of_file(&self, file: &MappedFile) -> Option<&Arc<Interpreter>> {
        match &self.entries.get(&file.key())?.decision {
            Decision::Interpreter(interpreter) => Some(interpreter),
            _ => None,
        }
    }

    /// Whether files are still being read.
    pub(crate) fn is_busy(&self) -> bool {
        self.workers.pending() > 0
    }

    /// Takes in what workers have read, after waiting for no longer than `wait`. Whether there was anything.
    pub(crate) fn take_finished(&mut self, wait: Duration) -> bool {
        let taken = self.workers.take(wait);
        let given_up = taken.given_up.into_iter().map(|ticket| (ticket, Ok(None)));
        let mut any = false;
        for (ticket, content) in given_up.chain(taken.finished) {
            let is_it =
                |entry: &&mut Entry| matches!(entry.decision, Decision::Awaited(other) if other == ticket);
            let Some(entry) = self.entries.values_mut().find(is_it) else { continue };
            any = true;
            entry.decision = match content {
                Ok(None) => Decision::Nothing,
                Ok(Some(interpreter)) => Decision::Interpreter(Arc::new(interpreter)),
                Err(error) => Decision::Unsupported(error),
            };
        }
        any
    }

    /// Forgets files that nothing maps any more.
    pub(crate) fn prune(&mut self) {
        self.entries.retain(|_, entry| {
            matches!(entry.decision, Decision::Awaited(_)) || entry.file.strong_count() > 0
        });
    }
}

/// The program itself, and every file that is named like an interpreter.
fn may_hold_interpreter(file: &MappedFile, exe: Option<&str>) -> bool {
    let path = file.path();
    file.kind() == FileKind::Elf && (exe == Some(path) || is_named(path))
}

fn is_named(path: &str) -> bool {
    let name = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    NAMES.iter().any(|known| name.starts_with(known))
}

/// Whether an image maps a file that is named like an interpreter; it may still have to be opened.
pub(super) fn maps_named(image: &Image) -> bool {
    let is_it = |region: &Region| match region.kind() {
        RegionKind::Opening(file) => is_named(file.unanswered().path()),
        kind => kind.file().is_some_and(|file| is_named(file.path())),
    };
    image.regions().iter().any(is_it)
}

/// Reads a file. One that cannot be read as a whole counts as one without an interpreter: its pages would be zeros.
fn content(file: &MappedFile) -> Content {
    let Ok(bytes) = file.bytes() else { return Ok(None) };
    let found = Interpreter::of_file(&bytes);
    if sys::filemap::is_whole(&bytes).unwrap_or(false) { found } else { Ok(None) }
}
