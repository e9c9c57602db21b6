//! Names for places in code, found on a thread of its own during the capture, each place once.

mod jit;
mod lines;

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use metrics::{Health, SymbolizeHealth};
use process::{Content, MappedFile, OpenFile};
use profile::{Avma, Svma};
use symbols::{KernelNames, ObjectFile, ObjectSource, Options, SourceLine, Symbolizer};

use self::jit::PerfMaps;
use self::lines::Lines;
use super::roots::Root;
use super::stacks::{Place, PlaceId, Stacks};
use crate::{CancelToken, Error};

pub(super) use self::jit::JitProgram;
pub(super) use self::lines::Shown;

/// Addresses given to the symbolizer at once; between two batches it may be abandoned.
const BATCH: usize = 2048;

/// What was read of files up to this size is kept for the next batch. Of larger ones only symbol tables are: the rest would
/// be most of our memory.
const LARGE_FILE: u64 = 8 << 20;
/// All that is kept of files.
const KEPT_BYTES: usize = 32 << 20;
/// Between two deliveries of new places in one file: at first, and at most. In between it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(900);
/// Large files may be read anew for each delivery. Their first comes when most places are there, the next ones are far between.
const FIRST_OF_LARGE: Duration = Duration::from_secs(4);
const LONGEST_PAUSE: Duration = Duration::from_secs(16);
/// How long the file that is being read when names are abandoned may still take.
const GRACE: Duration = Duration::from_millis(500);
/// Between two looks at whether names are abandoned.
const LOOK_EVERY: Duration = Duration::from_millis(50);

enum Work {
    Object { file: Arc<MappedFile>, root: Option<Root>, places: Vec<(PlaceId, Svma)> },
    Kernel(Vec<(PlaceId, u64)>),
    Jit { number: u32, program: Arc<JitProgram>, places: Vec<(PlaceId, Avma)> },
}

/// What was found.
#[derive(Default)]
pub(super) struct Names {
    lines: Lines,
    /// Whether kernel addresses could be named; none if there were none.
    pub(super) kernel: Option<KernelNames>,
    /// Places that nobody looked up, because that was abandoned.
    pub(super) abandoned: u64,
    /// What of perf maps was not used, and why.
    pub(super) shortfalls: Vec<String>,
    asked: Asked,
}

/// What was asked, and what came of it. It only grows.
#[derive(Clone, Default)]
struct Asked {
    named: u64,
    unnamed: u64,
    how: SymbolizeHealth,
}

impl Asked {
    fn all(&self) -> u64 {
        self.named + self.unnamed
    }
}

impl Names {
    /// What stands at a place; nothing if that was not found.
    pub(super) fn of(&self, place: PlaceId) -> impl ExactSizeIterator<Item = Shown<'_>> + Clone {
        self.lines.of(place)
    }

    /// Whether anything was found at a place.
    pub(super) fn has(&self, place: PlaceId) -> bool {
        self.lines.of(place).len() > 0
    }

    /// Takes in what was found of some places of user code, and how long it took.
    fn enter(&mut self, ids: impl Iterator<Item = PlaceId>, found: Vec<Vec<SourceLine>>, taken_ns: u64) {
        self.asked.how.user.record(taken_ns);
        self.add(ids, found);
    }

    /// The same of the kernel's code.
    fn enter_kernel(
        &mut self,
        ids: impl Iterator<Item = PlaceId>,
        found: Vec<Vec<SourceLine>>,
        taken_ns: u64,
        names: KernelNames,
    ) {
        let how = &mut self.asked.how;
        how.kernel.record(taken_ns);
        how.kernel_batches += 1;
        how.kernel_input_ips += found.len() as u64;
        how.kernel_batch_failures += u64::from(!matches!(names, KernelNames::Known(_)));
        how.kernel_raw_addr_frames += unnamed(&found);
        self.kernel = Some(names);
        self.add(ids, found);
    }

    fn add(&mut self, ids: impl Iterator<Item = PlaceId>, found: Vec<Vec<SourceLine>>) {
        let unnamed = unnamed(&found);
        self.asked.unnamed += unnamed;
        self.asked.named += found.len() as u64 - unnamed;
        ids.zip(found).for_each(|(place, lines)| self.lines.enter(place, lines));
    }
}

fn unnamed(found: &[Vec<SourceLine>]) -> u64 {
    found.iter().filter(|lines| lines.is_empty()).count() as u64
}

/// Places in one file that are not handed over yet.
struct Held {
    places: Vec<(PlaceId, Svma)>,
    due: Instant,
    pause: Duration,
}

/// The thread that finds names.
pub(super) struct Namer {
    work: Sender<Work>,
    thread: JoinHandle<()>,
    /// Nothing comes; it closes when the thread ends.
    end: Receiver<()>,
    names: Arc<Mutex<Names>>,
    abandon: CancelToken,
    /// By module of [`Stacks`].
    held: HashMap<u32, Held>,
    /// Places of [`Stacks`] that were sorted by where they are.
    seen: usize,
    /// Of these, those that lie in no mapping.
    nowhere: u64,
    /// Of these, those that were handed over.
    sent: u64,
}

impl Namer {
    /// Starts the thread. `abandon` ends it early.
    pub(super) fn start(abandon: CancelToken) -> Result<Self, Error> {
        let (work, queue) = channel();
        let (alive, end) = channel::<()>();
        let names = Arc::new(Mutex::new(Names::default()));
        let (theirs, token) = (Arc::clone(&names), abandon.clone());
        let body = move || {
            find_names(&queue, &token, &theirs);
            drop(alive);
        };
        let thread = sys::thread::spawn_quiet_thread("names", body)
            .map_err(|source| Error::System { attempt: "start the thread for names".to_owned(), source })?;
        Ok(Self { work, thread, end, names, abandon, held: HashMap::new(), seen: 0, nowhere: 0, sent: 0 })
    }

    /// Hands over places that are new since the last call, except those in files of which some were handed over lately.
    pub(super) fn send_new(&mut self, stacks: &Stacks) {
        self.send(stacks, false);
    }

    /// Hands over all that are left.
    pub(super) fn send_rest(&mut self, stacks: &Stacks) {
        self.send(stacks, true);
    }

    fn send(&mut self, stacks: &Stacks, all: bool) {
        let now = Instant::now();
        let mut jit: HashMap<u32, Vec<(PlaceId, Avma)>> = HashMap::new();
        let mut kernel = Vec::new();
        for (id, place) in stacks.places().iter().enumerate().skip(self.seen) {
            let id = id as PlaceId;
            match *place {
                Place::Module { module, svma, exact, .. } => {
                    let large = stacks.modules[module as usize].file.identity().size > LARGE_FILE;
                    let (due, pause) =
                        if large { (now + FIRST_OF_LARGE, LONGEST_PAUSE) } else { (now, FIRST_PAUSE) };
                    let new = || Held { places: Vec::new(), due, pause };
                    let held = self.held.entry(module).or_insert_with(new);
                    held.places.push((id, Svma(before(svma.0, exact))));
                }
                Place::Jit { program, address, exact } => {
                    jit.entry(program).or_default().push((id, Avma(before(address.0, exact))));
                }
                Place::Kernel { address, exact } => kernel.push((id, before(address, exact))),
                Place::Unknown { .. } => self.nowhere += 1,
            }
        }
        self.seen = stacks.places().len();
        // The thread ends before this one only if it panicked; then frames stay without names.
        for (module, held) in &mut self.held {
            if held.places.is_empty() || (!all && now < held.due) {
                continue;
            }
            held.due = now + held.pause;
            held.pause = (held.pause * 2).min(LONGEST_PAUSE);
            let places = std::mem::take(&mut held.places);
            let module = &stacks.modules[*module as usize];
            self.sent += places.len() as u64;
            let (file, root) = (Arc::clone(&module.file), module.root.clone());
            let _ = self.work.send(Work::Object { file, root, places });
        }
        for (number, places) in jit {
            self.sent += places.len() as u64;
            let program = Arc::clone(&stacks.programs[number as usize]);
            let _ = self.work.send(Work::Jit { number, program, places });
        }
        if !kernel.is_empty() {
            self.sent += kernel.len() as u64;
            let _ = self.work.send(Work::Kernel(kernel));
        }
    }

    /// What was asked and found so far.
    pub(super) fn tell(&self, health: &mut Health) {
        let asked = lock(&self.names).asked.clone();
        health.frames_symbolized = asked.named;
        health.frames_unsymbolized = asked.unnamed + self.nowhere;
        health.symbolize = Some(asked.how);
    }

    /// Waits for the rest, or until names are abandoned; the thread may then still be busy with its last file. `tell` is
    /// called again and again with the number of places that are still to be looked up.
    pub(super) fn finish(self, tell: impl Fn(u64)) -> Names {
        drop(self.work);
        let mut abandoned_at = None;
        let left = || self.sent.saturating_sub(lock(&self.names).asked.all());
        let ended = loop {
            tell(left());
            match self.end.recv_timeout(LOOK_EVERY) {
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break self.thread.join().is_ok(),
                Err(RecvTimeoutError::Timeout) if self.abandon.is_cancelled() => {
                    if abandoned_at.get_or_insert_with(Instant::now).elapsed() >= GRACE {
                        break false;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        let mut names = std::mem::take(&mut *lock(&self.names));
        if !ended || self.abandon.is_cancelled() {
            names.abandoned = self.sent.saturating_sub(names.asked.all());
        }
        tell(0);
        names
    }
}

fn lock(names: &Mutex<Names>) -> MutexGuard<'_, Names> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The call instruction lies before the return address.
fn before(address: u64, exact: bool) -> u64 {
    address - u64::from(!exact && address > 0)
}

/// The file as the symbolizer takes it, and what keeps the paths in it good. None: it cannot be read any more.
fn object_of(file: &MappedFile, root: Option<&Root>) -> Option<(ObjectFile, Option<OpenFile>)> {
    let (source, opened) = match file.open_content() {
        Ok(Content::File(opened)) => (ObjectSource::Path(opened.path()), Some(opened)),
        Ok(Content::Memory(bytes)) => (ObjectSource::Bytes(bytes), None),
        Err(error) => {
            tracing::debug!(target: "perfagent", "names: {error}");
            return None;
        }
    };
    let object = ObjectFile {
        source,
        display_path: file.path().to_owned(),
        root: root.map(Root::path),
        build_id: file.build_id().cloned(),
    };
    Some((object, opened))
}

fn find_names(queue: &Receiver<Work>, abandon: &CancelToken, names: &Mutex<Names>) {
    super::priority::go_with_others();
    let mut symbolizer = Symbolizer::new(Options { cache_bytes: KEPT_BYTES, ..Options::default() });
    let mut perf_maps = PerfMaps::default();
    for work in queue {
        if abandon.is_cancelled() {
            return;
        }
        match work {
            Work::Object { file, root, places } => {
                let begun = Instant::now();
                let object = object_of(&file, root.as_ref());
                for batch in places.chunks(BATCH) {
                    let addresses: Vec<Svma> = batch.iter().map(|(_, svma)| *svma).collect();
                    let begun = Instant::now();
                    let found = match &object {
                        Some((object, _opened)) => symbolizer.object(object, &addresses),
                        None => vec![Vec::new(); addresses.len()],
                    };
                    let taken_ns = elapsed_ns(begun);
                    lock(names).enter(batch.iter().map(|(id, _)| *id), found, taken_ns);
                    if abandon.is_cancelled() {
                        return;
                    }
                }
                if file.identity().size > LARGE_FILE {
                    symbolizer.release_last();
                    sys::memory::give_back_free_pages();
                }
                let (path, places) = (file.path(), places.len());
                tracing::debug!(target: "perfagent", path, places, elapsed = ?begun.elapsed(), "names");
            }
            Work::Kernel(places) => {
                let addresses: Vec<u64> = places.iter().map(|(_, address)| *address).collect();
                let begun = Instant::now();
                let found = symbolizer.kernel(&addresses);
                let (taken_ns, known) = (elapsed_ns(begun), symbolizer.kernel_names());
                lock(names).enter_kernel(places.iter().map(|(id, _)| *id), found, taken_ns, known);
            }
            Work::Jit { number, program, places } => {
                let begun = Instant::now();
                let found = perf_maps.find(number, &program, places, abandon);
                let (ids, found): (Vec<_>, Vec<_>) = found.into_iter().unzip();
                lock(names).enter(ids.into_iter(), found, elapsed_ns(begun));
            }
        }
    }
    let begun = Instant::now();
    let (ids, found): (Vec<_>, Vec<_>) = perf_maps.find_rest(abandon).into_iter().unzip();
    let mut names = lock(names);
    if !ids.is_empty() {
        names.enter(ids.into_iter(), found, elapsed_ns(begun));
    }
    names.shortfalls = perf_maps.shortfalls();
}

fn elapsed_ns(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::Path;

    use super::*;

    #[test]
    fn a_file_that_is_not_kept_open_is_named_without_a_copy_of_it() {
        let image = process::read_image(std::process::id(), &process::Files::with_budget(0)).unwrap();
        let mut files = image.regions().iter().filter_map(|region| region.kind.file());
        let file = files.find(|file| Some(file.path()) == image.exe.as_deref()).unwrap();
        assert!(!file.is_pinned());
        let (object, opened) = object_of(file, None).unwrap();
        assert!(matches!(object.source, ObjectSource::Path(_)) && opened.is_some());
        let code = file.segments().iter().find(|segment| segment.executable).unwrap();
        let svmas: Vec<Svma> = (code.start.0..code.limit.0).step_by(4096).map(Svma).collect();
        let found = Symbolizer::new(Options::default()).object(&object, &svmas);
        assert!(found.iter().any(|lines| !lines.is_empty()));
    }

    #[test]
    fn abandoned_names_leave_the_rest_and_say_how_much() {
        let file = Arc::new(MappedFile::open(Path::new("/proc/self/exe")).unwrap());
        let code = *file.segments().iter().find(|segment| segment.executable).unwrap();
        let abandon = CancelToken::new();
        let mut namer = Namer::start(abandon.clone()).unwrap();
        // More than can be named before anybody looks.
        let svmas = (code.start.0..code.limit.0).map(Svma).cycle();
        let places: Vec<(PlaceId, Svma)> = (0..2_000_000).zip(svmas).collect();
        let sent = places.len() as u64;
        namer.sent = sent;
        namer.work.send(Work::Object { file, root: None, places }).unwrap();
        let told = Cell::new(sent);
        let names = namer.finish(|left| {
            told.set(left);
            assert!(left <= sent);
            // With some found, as when somebody has waited for a while.
            if left < sent {
                abandon.cancel();
            }
        });
        assert_eq!(told.get(), 0);
        assert!(names.asked.all() > 0 && names.asked.all() + names.abandoned == sent);
        assert!(names.abandoned > 0);
    }
}
