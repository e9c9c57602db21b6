//! Which files have an unwind table in the kernel, which wait for one, and which have none.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use kernel::{Kernel, KernelMapping, MappingKind, TableHandle};
use process::{FileKey, FileKind, Image, MappedFile, Region, RegionKind};
use profile::{Avma, Svma};
use tables::{Answer, Cache, Compiler};
use unwind::{Rule, Table};

use super::content::Source;
use crate::hooks::{CompiledTable, TableHookThread};
use crate::{Error, Warning, WarningKind};

/// More threads than this make too many tables at a time for the memory that we want to take.
const MAX_THREADS: usize = 4;

/// Files with the same build-id that a new table is compared with.
const MAX_COMPARED: usize = 8;

/// Of larger files most are never run through.
const LIKELY_NEEDED: u64 = 8 << 20;

/// Mappings of one process that the kernel is told of, at 32 bytes: a quarter of the memory that all processes and tables share
/// there, four times what a process may have where nobody has raised `vm.max_map_count`.
const MAX_MAPPINGS: usize = 1 << 18;

/// How an address is unwound.
pub(super) enum Unwinding {
    Rule(Rule),
    FramePointer { for_want_of_a_row: bool },
    NotReady,
}

/// State of the table of one file.
enum State {
    /// Not asked for yet: no sample has hit the file.
    Wanted,
    /// Being made.
    Pending,
    /// In the kernel; copies of a file have one together.
    Ready(Arc<TableHandle>),
    /// The file has no unwind information: frame pointers.
    None,
    /// There is no room for it in the kernel.
    NoRoom,
}

struct Entry {
    number: u64,
    state: State,
    file: Arc<MappedFile>,
    /// Processes that map the file.
    users: HashSet<u32>,
}

/// The tables of all files of all recorded processes.
pub(super) struct Tables {
    compiler: Compiler,
    answers: Receiver<Answer>,
    entries: HashMap<FileKey, Entry>,
    /// Key by number of request.
    keys: HashMap<u64, FileKey>,
    next_number: u64,
    /// Make tables when a file is mapped, rather than when a sample hits it.
    eager: bool,
    /// Frame pointers only: there are no tables.
    disabled: bool,
    warnings: Vec<Warning>,
    full: bool,
    /// Tables that could not be made or found no room.
    failed: u64,
    /// A warning has told of a process with too many mappings.
    crowded: bool,
    hooks: TableHookThread,
}

impl Tables {
    /// `cache`: where tables are kept, if not at the usual place. `hooks`: who is told of finished tables.
    pub(super) fn new(
        eager: bool,
        disabled: bool,
        cache: Option<&Path>,
        hooks: TableHookThread,
    ) -> Result<Self, Error> {
        let mut warnings = Vec::new();
        // Where no table is made, what is wrong with the cache does not matter.
        let cache = match cache {
            _ if disabled => Ok(None),
            Some(directory) => Cache::at(directory).map(Some),
            None => Cache::open_default(),
        };
        let cache = cache.unwrap_or_else(|error| {
            warnings.push(Warning::bare(WarningKind::Tables, error.to_string()));
            None
        });
        let most = if disabled { 1 } else { MAX_THREADS };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(most);
        let spawn = |name: String, body: Box<dyn FnOnce() + Send>| {
            let name = name.trim_start_matches("perfagent-").to_owned();
            let body = move || {
                super::priority::go_with_others();
                body();
            };
            sys::thread::spawn_quiet_thread(&name, body).map(drop)
        };
        let (compiler, answers) = Compiler::start(threads, cache, spawn).map_err(|source| Error::System {
            attempt: "start threads for unwind tables".to_owned(),
            source,
        })?;
        Ok(Self {
            compiler,
            answers,
            entries: HashMap::new(),
            keys: HashMap::new(),
            next_number: 0,
            eager,
            disabled,
            warnings,
            full: false,
            failed: 0,
            crowded: false,
            hooks,
        })
    }

    /// Something found no room in the kernel: told once.
    pub(super) fn warn_of_room(&mut self, message: String) {
        if !std::mem::replace(&mut self.full, true) {
            self.warnings.push(Warning::new(
                WarningKind::Tables,
                message,
                "profile fewer processes at a time",
            ));
        }
    }

    pub(super) fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }

    /// The thread that tells of finished tables; none is told of any more.
    pub(super) fn take_hooks(&mut self) -> TableHookThread {
        std::mem::take(&mut self.hooks)
    }

    /// Tables that could not be made or found no room, so far.
    pub(super) fn failed(&self) -> u64 {
        self.failed
    }

    /// The mappings of an image as the walker wants them; asks for tables, if eager.
    pub(super) fn mappings(&mut self, image: &Image) -> Vec<KernelMapping> {
        let all = image.regions();
        let known = all.len().min(MAX_MAPPINGS);
        if known < all.len() && !std::mem::replace(&mut self.crowded, true) {
            let message = format!(
                "process {} maps code {} times, of which {MAX_MAPPINGS} are known in the kernel; stacks through others are \
                 truncated",
                image.pid,
                all.len()
            );
            self.warnings.push(Warning::bare(WarningKind::Tables, message));
        }
        let mut mappings = Vec::with_capacity(known);
        for region in all.iter().take(known).filter(|region| !matches!(region.kind, RegionKind::Vsyscall)) {
            let (bias, kind) = self.unwinding(image.pid, region);
            mappings.push(KernelMapping { start: region.start.0, end: region.end.0, bias, kind });
        }
        mappings
    }

    /// Asks for the table of the file that a region maps, of large files only if eager: samples are likely to need it.
    pub(super) fn request(&mut self, pid: u32, region: &Region) {
        let Some(file) = region.kind.file() else { return };
        if self.disabled || !(self.eager || file.identity().size <= LIKELY_NEEDED) {
            return;
        }
        self.unwinding(pid, region);
        if let Some(entry) = self.entries.get_mut(&file.key()) {
            submit(&self.compiler, entry, 0);
        }
    }

    /// Whether frame pointers are all that is to be followed.
    pub(super) fn are_disabled(&self) -> bool {
        self.disabled
    }

    /// Bias and kind of unwinding of a region.
    fn unwinding(&mut self, pid: u32, region: &Region) -> (u64, MappingKind) {
        let plain = (0, MappingKind::FramePointers);
        let Some(file) = region.kind.file().filter(|file| file.kind() != FileKind::NotElf) else {
            return plain;
        };
        let Some(svma) = file.svma_of(region.offset) else { return plain };
        let bias = region.start.0.wrapping_sub(svma.0);
        if self.disabled {
            return plain;
        }
        let key = file.key();
        let entry = self.entries.entry(key.clone()).or_insert_with(|| {
            let number = self.next_number;
            self.next_number += 1;
            self.keys.insert(number, key);
            Entry { number, state: State::Wanted, file: Arc::clone(file), users: HashSet::new() }
        });
        entry.users.insert(pid);
        if self.eager {
            submit(&self.compiler, entry, 0);
        }
        let kind = match &entry.state {
            State::Wanted | State::Pending | State::NoRoom => MappingKind::NotReady,
            State::Ready(handle) => KernelMapping::with_table(handle),
            State::None => MappingKind::FramePointers,
        };
        (bias, kind)
    }

    /// How an address of a region is unwound; asks for the table where it is missing.
    pub(super) fn unwinding_at(&mut self, pid: u32, region: &Region, at: Avma, kernel: &Kernel) -> Unwinding {
        let (bias, kind) = self.unwinding(pid, region);
        if let Some(file) = region.kind.file() {
            let entry = self.entries.get_mut(&file.key());
            if let Some(Entry { state: State::Ready(handle), .. }) = entry {
                let rule = kernel.lookup(handle, Svma(at.0.wrapping_sub(bias)));
                return rule.map_or(Unwinding::FramePointer { for_want_of_a_row: true }, Unwinding::Rule);
            }
            if let Some(entry) = entry.filter(|_| kind == MappingKind::NotReady) {
                want(&self.compiler, entry);
                return Unwinding::NotReady;
            }
        }
        Unwinding::FramePointer { for_want_of_a_row: false }
    }

    /// A sample ended in this file for want of its table.
    pub(super) fn hit(&mut self, file: &MappedFile) {
        if let Some(entry) = self.entries.get_mut(&file.key()) {
            want(&self.compiler, entry);
        }
    }

    /// A process has ended or has another image.
    pub(super) fn forget(&mut self, pid: u32) {
        for entry in self.entries.values_mut() {
            entry.users.remove(&pid);
        }
    }

    /// Tables that are being made.
    pub(super) fn pending(&self) -> usize {
        self.entries.values().filter(|entry| matches!(entry.state, State::Pending)).count()
    }

    /// Processes that map files whose tables are being made.
    pub(super) fn awaited_by(&self) -> HashSet<u32> {
        let pending = self.entries.values().filter(|entry| matches!(entry.state, State::Pending));
        pending.flat_map(|entry| entry.users.iter().copied()).collect()
    }

    /// Puts finished tables into the kernel, waiting up to `timeout` for the first. Returns the processes whose
    /// mappings have changed by that.
    pub(super) fn install_finished(&mut self, kernel: &mut Kernel, timeout: Duration) -> HashSet<u32> {
        let mut changed = HashSet::new();
        let first = if timeout.is_zero() {
            self.answers.try_recv().ok()
        } else {
            self.answers.recv_timeout(timeout).ok()
        };
        let mut next = first;
        while let Some(answer) = next {
            changed.extend(self.install(kernel, answer));
            next = self.answers.try_recv().ok();
        }
        changed
    }

    fn install(&mut self, kernel: &mut Kernel, answer: Answer) -> HashSet<u32> {
        let key = self.keys.get(&answer.key);
        let Some(entry) = key.and_then(|key| self.entries.get_mut(key)) else { return HashSet::new() };
        let file = Arc::clone(&entry.file);
        let path = file.path();
        tracing::debug!(target: "perfagent", path, source = ?answer.source, elapsed = ?answer.elapsed, "unwind table");
        if let Some(error) = answer.not_cached {
            tracing::debug!(target: "perfagent", path, "{error}");
        }
        if let Ok(table) = &answer.table {
            self.hooks.tell(|| CompiledTable {
                path: path.to_owned(),
                rows: table.rows.len(),
                compile_time: answer.elapsed,
                cached: matches!(answer.source, tables::Source::Cached),
            });
        }
        let state = match answer.table {
            Ok(table) if table.is_empty() => State::None,
            Ok(table) => match self.share_or_install(kernel, &file, &table) {
                Ok(handle) => State::Ready(handle),
                Err(error) => {
                    self.failed += 1;
                    self.warn_of_room(format!(
                        "unwind table of {path} and others: {error}; their stacks are truncated"
                    ));
                    State::NoRoom
                }
            },
            Err(error) => {
                self.failed += 1;
                let message =
                    format!("no unwind table for {path}: {error}; frame pointers are followed there");
                self.warnings.push(Warning::bare(WarningKind::Tables, message));
                State::None
            }
        };
        let Some(entry) = self.entries.get_mut(&file.key()) else { return HashSet::new() };
        entry.state = state;
        entry.users.clone()
    }

    /// Copies of a file, as containers have them, need their table once. That they say to be the same is not enough: the
    /// tables must be equal.
    fn share_or_install(
        &self,
        kernel: &mut Kernel,
        file: &MappedFile,
        table: &Table,
    ) -> Result<Arc<TableHandle>, kernel::Error> {
        let copies = self
            .entries
            .values()
            .filter(|entry| file.build_id().is_some() && entry.file.build_id() == file.build_id());
        let same = copies.filter_map(|entry| match &entry.state {
            State::Ready(handle) => Some(handle),
            _ => None,
        });
        match same.take(MAX_COMPARED).find(|handle| kernel.is_same_table(handle, table)) {
            Some(handle) => Ok(Arc::clone(handle)),
            None => kernel.install_table(table).map(Arc::new),
        }
    }

    /// Frees tables of files that no recorded process maps any more.
    pub(super) fn free_unused(&mut self, kernel: &mut Kernel) {
        for entry in self.entries.values_mut().filter(|entry| entry.users.is_empty()) {
            // While a copy of the file is in use, its table is.
            if let State::Ready(handle) = std::mem::replace(&mut entry.state, State::Wanted)
                && let Some(handle) = Arc::into_inner(handle)
            {
                kernel.remove_table(handle);
            }
        }
        let Self { entries, keys, .. } = self;
        entries.retain(|_, entry| {
            let keep = !entry.users.is_empty() || matches!(entry.state, State::Pending);
            if !keep {
                keys.remove(&entry.number);
            }
            keep
        });
    }
}

/// A sample needs this table: those that most samples need are made first.
fn want(compiler: &Compiler, entry: &mut Entry) {
    match entry.state {
        State::Pending => _ = compiler.bump(entry.number),
        _ => submit(compiler, entry, 1),
    }
}

fn submit(compiler: &Compiler, entry: &mut Entry, priority: u64) {
    if !matches!(entry.state, State::Wanted) {
        return;
    }
    if compiler.submit(entry.number, priority, Box::new(Source(Arc::clone(&entry.file)))) {
        entry.state = State::Pending;
    }
}

#[cfg(test)]
mod tests {
    use profile::FileOffset;

    use super::*;

    #[test]
    fn no_process_takes_the_memory_of_all() {
        let mut tables = Tables::new(false, true, None, TableHookThread::default()).unwrap();
        let mut mappings = |count: u64| {
            let region = |number: u64| {
                let (start, end) = (Avma(number << 13), Avma((number << 13) + 0x1000));
                Region { start, end, offset: FileOffset(0), kind: RegionKind::Anonymous }
            };
            let regions = (1..=count).map(region).collect();
            let mappings = tables.mappings(&Image::new(7, 1, "many".to_owned(), None, regions));
            (mappings.len(), mappings[0].start, tables.take_warnings().len())
        };
        let most = MAX_MAPPINGS as u64;
        assert_eq!(mappings(most), (MAX_MAPPINGS, 1 << 13, 0));
        assert_eq!(mappings(most + 1), (MAX_MAPPINGS, 1 << 13, 1));
        assert_eq!(mappings(most + 2), (MAX_MAPPINGS, 1 << 13, 0), "told once");
    }
}
