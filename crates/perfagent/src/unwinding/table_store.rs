//! Unwind tables of the files that recorded processes map: requested, being compiled, in the kernel, or absent.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use kernel::{Kernel, KernelMapping, MappingKind, TableHandle};
use process::{FileKey, FileKind, Image, MappedFile, OpeningFile, Region, RegionKind};
use profile::{Avma, Svma};
use tables::{Answer, Cache, Compiler};
use unwind::{Rule, Table};

use super::file_table::{FileTable, State};
use super::kept_tables::{Unused, no_longer_kept};
use super::mapping_list::{MAX_ENTRIES, with_nowhere, within_quota};
use super::room::{Waiting, WaitingTable, that_fit};
use crate::hooks::{CompiledTable, HookThread};
use crate::{Error, Warning, WarningKind};

/// Each thread holds a file and its table in memory, so more threads would use too much.
const MAX_THREADS: usize = 4;

/// A new table is compared with the tables of this many files of the same build-id.
const MAX_COMPARED: usize = 8;

/// Larger files are requested only when a sample hits them: most are never executed.
const LIKELY_NEEDED: u64 = 8 << 20;

/// A file that is not read within this time is given up: stacks wait no longer for its table either.
const PATIENCE: Duration = Duration::from_secs(5);

/// Warnings that are kept: a target can make as many broken files as it likes. All of them are counted.
const MAX_WARNINGS: usize = 64;

/// How an address is unwound.
pub(crate) enum UnwindMethod {
    Rule(Rule),
    FramePointer { for_want_of_a_row: bool },
    NotReady,
}

/// A file that is still to be opened, and the processes that map it.
struct Opening {
    file: Arc<OpeningFile>,
    users: HashSet<u32>,
}

/// The tables of all files of all recorded processes.
pub(crate) struct TableStore {
    compiler: Compiler,
    answers: Receiver<Answer>,
    entries: HashMap<FileKey, FileTable>,
    /// By address.
    opening: HashMap<usize, Opening>,
    /// Key by number of request.
    keys: HashMap<u64, FileKey>,
    next_number: u64,
    /// Request a table when its file is mapped, not when a sample hits it.
    eager: bool,
    /// Follow frame pointers only.
    disabled: bool,
    warnings: Vec<Warning>,
    full: bool,
    /// What found no room in the kernel's memory.
    waiting: Waiting,
    /// Tables that could not be compiled or did not fit.
    failed: u64,
    /// Rules that the kernel side did not take, as their files have too many.
    rules_left_out: u64,
    /// Files whose file system did not answer in time.
    unanswered: u64,
    /// The warning about a process with too many mappings was given.
    crowded: bool,
    hooks: HookThread<CompiledTable>,
}

impl TableStore {
    /// `cache`: the folder of compiled tables; `None` for the default folder. `hooks`: the thread that tells about finished tables.
    pub(crate) fn new(
        eager: bool,
        disabled: bool,
        cache: Option<&Path>,
        hooks: HookThread<CompiledTable>,
    ) -> Result<Self, Error> {
        let mut warnings = Vec::new();
        // Without tables the cache is not used, so its errors do not matter.
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
                crate::priority::go_soon();
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
            opening: HashMap::new(),
            keys: HashMap::new(),
            next_number: 0,
            eager,
            disabled,
            warnings,
            full: false,
            waiting: Waiting::default(),
            failed: 0,
            rules_left_out: 0,
            unanswered: 0,
            crowded: false,
            hooks,
        })
    }

    /// Warns, once, that something did not fit into the kernel's memory.
    fn warn_of_room(&mut self, message: String) {
        if !std::mem::replace(&mut self.full, true) {
            let hint = "raise --table-memory, or profile fewer processes at a time";
            self.warn(Warning::new(WarningKind::Tables, message, hint));
        }
    }

    /// The mappings of a process did not fit into the kernel's memory. They are tried again when there is room.
    pub(crate) fn found_no_room(&mut self, pid: u32, error: &kernel::Error) {
        self.waiting.add(pid);
        self.warn_of_room(format!(
            "mappings of process {pid} and others: {error}; their stacks are truncated until there is room"
        ));
    }

    fn warn(&mut self, warning: Warning) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(warning);
        }
    }

    pub(crate) fn take_warnings(&mut self) -> Vec<Warning> {
        let mut warnings = std::mem::take(&mut self.warnings);
        let (files, whose) = match std::mem::take(&mut self.unanswered) {
            0 => return warnings,
            1 => ("1 file".to_owned(), "whose file system does"),
            files => (format!("{files} files"), "whose file systems do"),
        };
        let message =
            format!("no unwind tables for {files} {whose} not answer; frame pointers are followed there");
        warnings.push(Warning::bare(WarningKind::Tables, message));
        warnings
    }

    /// The thread that tells the host program about finished tables; it is told of no further ones.
    pub(crate) fn take_hooks(&mut self) -> HookThread<CompiledTable> {
        std::mem::take(&mut self.hooks)
    }

    /// Tables that could not be compiled or did not fit, so far.
    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// Rules that the kernel side did not take, so far.
    pub(crate) fn rules_left_out(&self) -> u64 {
        self.rules_left_out
    }

    /// Counts and tells which rules of a file the kernel side did not take.
    fn look_for_rules_left_out(&mut self, path: &str, table: &Table, handle: &TableHandle) {
        let left_out = handle.rules_left_out();
        if left_out == 0 {
            return;
        }
        self.rules_left_out += left_out as u64;
        let all = table.rules.len();
        let message = format!(
            "{path} has {all} different unwind rules, of which {left_out} are left out; stacks through it may be cut, other programs lose nothing"
        );
        self.warn(Warning::bare(WarningKind::Tables, message));
    }

    /// The mappings of the image of a running process in the walker's form. Requests tables if eager. Until [`Self::forget`] the process
    /// keeps the tables of its files.
    /// `nowhere`: ranges in no mapping that stacks led to.
    pub(crate) fn mappings(&mut self, image: &Image, nowhere: &[Range<u64>]) -> Vec<KernelMapping> {
        let regions = image.regions().iter();
        let regions = regions.filter(|region| !matches!(region.kind(), RegionKind::KernelPage));
        let list = within_quota(regions.map(|region| {
            let (bias, kind) = self.unwinding(Some(image.pid), region);
            KernelMapping { start: region.start.0, end: region.end.0, bias, kind }
        }));
        if list.left_out > 0 && !std::mem::replace(&mut self.crowded, true) {
            let message = format!(
                "process {} maps code of files {} times, of which {MAX_ENTRIES} are known in the kernel; its stacks through others are \
                 truncated",
                image.pid,
                list.entries.len() + list.left_out
            );
            self.warn(Warning::bare(WarningKind::Tables, message));
        }
        with_nowhere(list.entries, nowhere)
    }

    /// Requests the table of the file that a region maps; of a large file only if eager.
    pub(crate) fn request(&mut self, region: &Region) {
        let Some(file) = region.file() else { return };
        if self.disabled || !(self.eager || file.identity().size <= LIKELY_NEEDED) {
            return;
        }
        self.unwinding(None, region);
        if let Some(entry) = self.entries.get_mut(&file.key()) {
            entry.submit(&self.compiler, 0);
        }
    }

    /// Whether only frame pointers are followed.
    pub(crate) fn are_disabled(&self) -> bool {
        self.disabled
    }

    /// Bias and kind of unwinding of a region. `user`: a running process that maps it. A process that has ended is no user: nobody would
    /// take it out again.
    fn unwinding(&mut self, user: Option<u32>, region: &Region) -> (u64, MappingKind) {
        let plain = (0, MappingKind::FramePointers);
        if let RegionKind::Opening(file) = region.kind()
            && !self.disabled
        {
            let new = || Opening { file: Arc::clone(file), users: HashSet::new() };
            self.opening.entry(Arc::as_ptr(file).addr()).or_insert_with(new).users.extend(user);
            return (0, MappingKind::NotReady);
        }
        let Some(file) = region.file().filter(|file| file.kind() != FileKind::NotElf) else {
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
            FileTable::new(number, Arc::clone(file))
        });
        entry.users.extend(user);
        if self.eager {
            entry.submit(&self.compiler, 0);
        }
        (bias, entry.kind())
    }

    /// How an address of a region is unwound. Requests the table if it is missing.
    pub(crate) fn unwinding_at(&mut self, region: &Region, at: Avma, kernel: &Kernel) -> UnwindMethod {
        let (bias, kind) = self.unwinding(None, region);
        if let Some(file) = region.file() {
            let entry = self.entries.get_mut(&file.key());
            if let Some(FileTable { state: State::Ready(handle), .. }) = entry {
                let rule = kernel.lookup(handle, Svma(at.0.wrapping_sub(bias)));
                return rule
                    .map_or(UnwindMethod::FramePointer { for_want_of_a_row: true }, UnwindMethod::Rule);
            }
            if let Some(entry) = entry.filter(|_| kind == MappingKind::NotReady) {
                entry.want(&self.compiler);
                return UnwindMethod::NotReady;
            }
        }
        match kind {
            MappingKind::NotReady => UnwindMethod::NotReady,
            _ => UnwindMethod::FramePointer { for_want_of_a_row: false },
        }
    }

    /// A walk ended in this file because its table was missing.
    pub(crate) fn hit(&mut self, file: &MappedFile) {
        if let Some(entry) = self.entries.get_mut(&file.key()) {
            entry.want(&self.compiler);
        }
    }

    /// A process has ended or has another image.
    pub(crate) fn forget(&mut self, pid: u32) {
        for entry in self.entries.values_mut() {
            entry.users.remove(&pid);
        }
        for opening in self.opening.values_mut() {
            opening.users.remove(&pid);
        }
        self.waiting.forget(pid);
    }

    /// Tables that are being compiled, and files that are being opened for theirs.
    pub(crate) fn pending(&self) -> usize {
        let compiled = self.entries.values().filter(|entry| matches!(entry.state, State::Pending)).count();
        compiled + self.opening().count()
    }

    /// Files that processes wait for.
    fn opening(&self) -> impl Iterator<Item = &Opening> {
        self.opening.values().filter(|opening| !opening.file.is_answered() && !opening.users.is_empty())
    }

    /// Puts finished tables into the kernel, waiting up to `timeout` for the first. Returns the processes whose
    /// mappings have changed by that.
    pub(crate) fn install_finished(&mut self, kernel: &mut Kernel, timeout: Duration) -> HashSet<u32> {
        self.opening.retain(|_, opening| !opening.file.is_answered() && !opening.users.is_empty());
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
        changed.extend(self.give_up());
        changed.extend(self.try_again(kernel));
        changed
    }

    /// Requests tables again that found no room before, if there is some now. Returns the processes whose mappings may find room.
    fn try_again(&mut self, kernel: &mut Kernel) -> HashSet<u32> {
        if !self.full || !self.waiting.is_due(Instant::now()) {
            return HashSet::new();
        }
        let waiting = self.entries.values().filter_map(|entry| match entry.state {
            State::NoRoom(bytes) => Some(WaitingTable { number: entry.number, bytes, hits: entry.hits }),
            _ => None,
        });
        let waiting: Vec<WaitingTable> = waiting.collect();
        if waiting.is_empty() && !self.waiting.has_processes() {
            return HashSet::new();
        }
        let free = kernel.table_room().free_bytes;
        for number in that_fit(waiting, free) {
            if let Some(entry) = self.keys.get(&number).and_then(|key| self.entries.get_mut(key)) {
                self.failed -= 1;
                let hits = std::mem::take(&mut entry.hits);
                entry.state = State::Wanted;
                entry.submit(&self.compiler, hits);
            }
        }
        self.waiting.take_processes(free)
    }

    /// Gives up the tables of files whose file system does not answer. Returns the processes whose mappings have changed by that.
    fn give_up(&mut self) -> HashSet<u32> {
        let mut changed = HashSet::new();
        for number in self.compiler.give_up(PATIENCE) {
            let Some(entry) = self.keys.get(&number).and_then(|key| self.entries.get_mut(key)) else {
                continue;
            };
            tracing::debug!(target: "perfagent", path = entry.file.path(), "unwind table: no answer");
            entry.state = State::Unanswered;
            self.failed += 1;
            self.unanswered += 1;
            changed.extend(&entry.users);
        }
        changed
    }

    fn install(&mut self, kernel: &mut Kernel, answer: Answer) -> HashSet<u32> {
        let key = self.keys.get(&answer.key);
        let Some(entry) = key.and_then(|key| self.entries.get_mut(key)) else { return HashSet::new() };
        let file = Arc::clone(&entry.file);
        if matches!(entry.state, State::Unanswered) {
            self.failed -= 1;
            self.unanswered = self.unanswered.saturating_sub(1);
        }
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
                Ok(handle) => {
                    self.look_for_rules_left_out(path, &table, &handle);
                    State::Ready(handle)
                }
                Err(error) => {
                    self.failed += 1;
                    self.warn_of_room(format!(
                        "unwind table of {path} and others: {error}; their stacks may be truncated until there is room"
                    ));
                    State::NoRoom(TableHandle::bytes_for(&table))
                }
            },
            Err(error) => {
                self.failed += 1;
                let message =
                    format!("no unwind table for {path}: {error}; frame pointers are followed there");
                self.warn(Warning::bare(WarningKind::Tables, message));
                State::None
            }
        };
        let Some(entry) = self.entries.get_mut(&file.key()) else { return HashSet::new() };
        entry.state = state;
        entry.users.clone()
    }

    /// Copies of a file, as in containers, share one table. Equal build-ids are not enough, since a file can claim any: the tables must
    /// be equal.
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

    /// Frees tables of files that no recorded process has mapped for a while, and those used least lately before if they are many.
    pub(crate) fn free_unused(&mut self, kernel: &mut Kernel) {
        let now = Instant::now();
        let mut unused = Vec::new();
        for entry in self.entries.values_mut() {
            if !entry.users.is_empty() || matches!(entry.state, State::Pending) {
                entry.unused_since = None;
                continue;
            }
            let since = *entry.unused_since.get_or_insert(now);
            let bytes = match &entry.state {
                State::Ready(handle) if !self.full => Some(handle.bytes()),
                _ => None,
            };
            unused.push(Unused { number: entry.number, since, bytes });
        }
        for number in no_longer_kept(unused, now) {
            let entry = self.keys.remove(&number).and_then(|key| self.entries.remove(&key));
            // A copy of the file may still use the table.
            if let Some(State::Ready(handle)) = entry.map(|entry| entry.state)
                && let Some(handle) = Arc::into_inner(handle)
            {
                kernel.remove_table(handle);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_of_a_process_that_has_ended_makes_it_no_user_of_tables() {
        let mut tables = TableStore::new(true, false, None, HookThread::default()).unwrap();
        let image = process::read_image(std::process::id(), &process::Files::new()).unwrap();
        tables.mappings(&image, &[]);
        let users =
            |tables: &TableStore| tables.entries.values().map(|entry| entry.users.len()).sum::<usize>();
        assert!(users(&tables) > 0);
        tables.forget(image.pid);
        // Its last stack needs tables.
        image.regions().iter().for_each(|region| tables.request(region));
        assert!(!tables.entries.is_empty());
        assert_eq!(users(&tables), 0, "nobody would take it out again");
    }
}
