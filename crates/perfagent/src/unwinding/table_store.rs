//! Unwind tables of the files that recorded processes map: requested, being compiled, in the kernel, or absent.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use kernel::{Kernel, KernelMapping, MappingKind, TableHandle, TableShape};
use process::{FileKey, FileKind, Image, MappedFile, OpeningFile, Region, RegionKind};
use profile::{Avma, Svma};
use tables::{Answer, Cache, Compiler};
use unwind::{Rule, Table};

use super::build_ids::BuildIds;
use super::eviction::{Held, Need, Shares, plan};
use super::evictions::Evictions;
use super::file_table::{FileTable, State};
use super::kept_tables::{Unused, no_longer_kept};
use super::leaving::LeavingTables;
use super::mapping_list::{MAX_ENTRIES, with_nowhere, within_quota};
use super::pool_room::{Group, PoolRoom};
use super::room::Waiting;
use super::scarcity::Scarcity;
use super::used_files::UsedFiles;
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
    used_files: UsedFiles,
    /// The files whose table is in the kernel.
    installed: BuildIds,
    /// Files whose table is being compiled.
    compiling: usize,
    next_number: u64,
    /// Request a table when its file is mapped, not when a sample hits it.
    eager: bool,
    /// Follow frame pointers only.
    disabled: bool,
    warnings: Vec<Warning>,
    full: bool,
    /// Lists of mappings that found no room in the kernel's memory.
    waiting: Waiting,
    /// Files whose table found no room there, by number.
    without_room: HashSet<u64>,
    leaving: LeavingTables<TableHandle>,
    evictions: Evictions,
    scarcity: Scarcity,
    /// Tables that could not be compiled.
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
            used_files: UsedFiles::default(),
            installed: BuildIds::default(),
            compiling: 0,
            next_number: 0,
            eager,
            disabled,
            warnings,
            full: false,
            waiting: Waiting::default(),
            without_room: HashSet::new(),
            leaving: LeavingTables::default(),
            evictions: Evictions::default(),
            scarcity: Scarcity::default(),
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
    pub(crate) fn found_no_room(&mut self, pid: u32, mappings: usize, error: &kernel::Error) {
        self.waiting.add(pid, mappings, Instant::now());
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
        let out = self.without_room.iter().filter_map(|number| self.out_of_room(*number));
        warnings.extend(self.evictions.warning(out.map(|entry| (entry.file.path(), entry.hits))));
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

    /// The table of the file with this number, if it is needed and found no room.
    fn out_of_room(&self, number: u64) -> Option<&FileTable> {
        let entry = self.keys.get(&number).and_then(|key| self.entries.get(key))?;
        (matches!(entry.state, State::NoRoom(_)) && entry.hits > 0).then_some(entry)
    }

    /// The thread that tells the host program about finished tables; it is told of no further ones.
    pub(crate) fn take_hooks(&mut self) -> HookThread<CompiledTable> {
        std::mem::take(&mut self.hooks)
    }

    /// Tables that could not be compiled, and those that have no room at present, but for those that left and are not needed.
    pub(crate) fn failed(&self) -> u64 {
        let entries = self.without_room.iter().filter_map(|number| self.entries.get(self.keys.get(number)?));
        self.failed + entries.filter(|entry| !entry.left).count() as u64
    }

    /// The present epoch: see [`Kernel::begin_epoch`].
    pub(crate) fn epoch(&self) -> u32 {
        self.scarcity.epoch()
    }

    /// How often a table left the kernel for others, so far.
    pub(crate) fn evicted(&self) -> u64 {
        self.evictions.count()
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
            self.compiling += usize::from(entry.submit(&self.compiler, 0));
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
            let address = Arc::as_ptr(file).addr();
            self.opening.entry(address).or_insert_with(new).users.extend(user);
            user.into_iter().for_each(|pid| self.used_files.maps_opening(pid, address));
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
        user.into_iter().for_each(|pid| self.used_files.maps(pid, entry.number));
        if self.eager {
            self.compiling += usize::from(entry.submit(&self.compiler, 0));
        }
        (bias, entry.kind())
    }

    /// How an address of a region is unwound. Requests the table if it is missing.
    pub(crate) fn unwinding_at(&mut self, region: &Region, at: Avma, kernel: &Kernel) -> UnwindMethod {
        let (bias, kind) = self.unwinding(None, region);
        if let Some(file) = region.file() {
            let entry = self.entries.get_mut(&file.key());
            if let Some(FileTable { state: State::Ready(handle), used, .. }) = entry {
                *used = self.scarcity.epoch();
                let rule = kernel.lookup(handle, Svma(at.0.wrapping_sub(bias)));
                return rule
                    .map_or(UnwindMethod::FramePointer { for_want_of_a_row: true }, UnwindMethod::Rule);
            }
            if let Some(entry) = entry.filter(|_| kind == MappingKind::NotReady) {
                self.compiling += usize::from(entry.want(&self.compiler, self.scarcity.epoch()));
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
            self.compiling += usize::from(entry.want(&self.compiler, self.scarcity.epoch()));
        }
    }

    /// A process has ended or has another image.
    pub(crate) fn forget(&mut self, pid: u32) {
        let used = self.used_files.forget(pid);
        for number in used.numbers {
            if let Some(entry) = self.keys.get(&number).and_then(|key| self.entries.get_mut(key)) {
                entry.users.remove(&pid);
            }
        }
        for address in used.opening {
            if let Some(opening) = self.opening.get_mut(&address) {
                opening.users.remove(&pid);
            }
        }
        self.waiting.forget(pid);
        self.leaving.no_longer_named_by(pid);
    }

    /// The list of mappings of a process was written into the kernel.
    pub(crate) fn written(&mut self, pid: u32) {
        self.waiting.forget(pid);
        self.leaving.no_longer_named_by(pid);
    }

    /// Tables that are being compiled, and files that are being opened for theirs.
    pub(crate) fn pending(&self) -> usize {
        self.compiling + self.opening().count()
    }

    /// Files that processes wait for.
    fn opening(&self) -> impl Iterator<Item = &Opening> {
        self.opening.values().filter(|opening| !opening.file.is_answered() && !opening.users.is_empty())
    }

    /// Puts finished tables into the kernel, waiting up to `timeout` for the first. Returns the processes whose
    /// mappings have changed by that.
    pub(crate) fn install_finished(&mut self, kernel: &mut Kernel, timeout: Duration) -> HashSet<u32> {
        self.opening.retain(|address, opening| {
            let stays = !opening.file.is_answered() && !opening.users.is_empty();
            if !stays {
                self.used_files.opened(opening.users.iter(), *address);
            }
            stays
        });
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
        changed.extend(self.make_room(kernel));
        changed
    }

    /// Frees what has left, and finds room for what is needed. Returns the processes whose mappings are to be written anew.
    fn make_room(&mut self, kernel: &mut Kernel) -> HashSet<u32> {
        let now = Instant::now();
        self.leaving.take_unnamed().into_iter().for_each(|table| kernel.remove_table(table));
        let waits = !self.without_room.is_empty() || self.waiting.has_processes();
        self.scarcity.look(kernel, waits, now);
        if !waits || !self.waiting.is_due(now) {
            return HashSet::new();
        }
        let due = self.without_room.iter().filter_map(|number| self.out_of_room(*number));
        let tables: Vec<&FileTable> =
            due.filter(|entry| entry.pauses.is_due(now) && !entry.users.is_empty()).collect();
        let lists: Vec<(HashSet<u32>, TableShape)> = self
            .waiting
            .due(now)
            .map(|(pid, mappings)| (HashSet::from([pid]), TableShape::of_mappings(mappings)))
            .collect();
        if tables.is_empty() && lists.is_empty() {
            return HashSet::new();
        }
        let epoch = self.scarcity.epoch();
        let shapes = tables.iter().filter_map(|entry| match &entry.state {
            State::NoRoom(shape) => Some((*entry, shape)),
            _ => None,
        });
        let of_tables = shapes.map(|(entry, shape)| {
            let need =
                Need { needed: entry.used, hits: entry.hits, bytes: shape.bytes(), users: &entry.users };
            (need, shape)
        });
        // Without its list, no stack of a process is walked.
        let of_lists = lists.iter().map(|(users, shape)| {
            (Need { needed: epoch, hits: u64::MAX, bytes: shape.bytes(), users }, shape)
        });
        let (needs, shapes): (Vec<Need<'_>>, Vec<&TableShape>) = of_tables.chain(of_lists).unzip();
        let groups = self.groups(kernel);
        let held: Vec<Held<'_>> = groups.iter().map(Group::held).collect();
        let share = |pid: u32| self.bytes_of(pid);
        let shares = Shares::new(kernel.table_room().limit_bytes / 2, share);
        let mut soon = PoolRoom::new(kernel.table_trial(true), &groups, &shapes);
        self.leaving.iter().for_each(|table| soon.frees(table));
        let rooms = (PoolRoom::new(kernel.table_trial(false), &groups, &shapes), soon);
        let plan = plan((&held, &needs), shares, epoch, rooms);
        let number_of = |at: &usize| tables.get(*at).map(|entry| entry.number);
        let pid_of = |at: &usize| lists[*at - tables.len()].0.iter().copied().next();
        let fit: Vec<u64> = plan.fit.iter().filter_map(number_of).collect();
        let stay_out: Vec<u64> = plan.stay_out.iter().filter_map(number_of).collect();
        let is_list = |at: &&usize| **at >= tables.len();
        let mut changed: HashSet<u32> = plan.fit.iter().filter(is_list).filter_map(pid_of).collect();
        let lists_out: Vec<u32> = plan.stay_out.iter().filter(is_list).filter_map(pid_of).collect();
        let leave: Vec<(Vec<u64>, Arc<TableHandle>)> =
            plan.leave.iter().map(|at| (groups[*at].numbers(), Arc::clone(&groups[*at].handle))).collect();
        for number in fit {
            self.try_again(number);
        }
        for number in stay_out {
            if let Some(entry) = self.keys.get(&number).and_then(|key| self.entries.get_mut(key)) {
                entry.pauses.pause(now);
            }
        }
        lists_out.into_iter().for_each(|pid| self.waiting.pause(pid, now));
        for (numbers, handle) in leave {
            changed.extend(self.evict(&numbers, handle, now));
        }
        changed
    }

    /// Requests a table again that found no room before.
    fn try_again(&mut self, number: u64) {
        if let Some(entry) = self.keys.get(&number).and_then(|key| self.entries.get_mut(key)) {
            let hits = std::mem::take(&mut entry.hits);
            entry.state = State::Wanted;
            self.without_room.remove(&number);
            self.compiling += usize::from(entry.submit(&self.compiler, hits));
        }
    }

    /// A table leaves the kernel, for all files that share it. Returns the processes whose lists of mappings name it.
    fn evict(&mut self, numbers: &[u64], handle: Arc<TableHandle>, now: Instant) -> HashSet<u32> {
        let mut named_by = HashSet::new();
        for number in numbers {
            let Some(entry) = self.keys.get(number).and_then(|key| self.entries.get_mut(key)) else {
                continue;
            };
            tracing::debug!(target: "perfagent", path = entry.file.path(), "unwind table: leaves for others");
            self.installed.remove(entry.file.build_id(), *number);
            entry.state = State::Wanted;
            if !entry.users.is_empty() {
                entry.state = State::NoRoom(handle.shape().clone());
                (entry.hits, entry.used, entry.left) = (0, 0, true);
                entry.pauses.pause(now);
                self.without_room.insert(*number);
                self.evictions.add();
            }
            named_by.extend(&entry.users);
        }
        self.leaving.add(handle, named_by.clone());
        named_by
    }

    /// The tables in the kernel, each with the files that share it.
    fn groups(&self, kernel: &Kernel) -> Vec<Group<'_>> {
        let mut groups: HashMap<usize, Group<'_>> = HashMap::new();
        for entry in self.entries.values() {
            let State::Ready(handle) = &entry.state else { continue };
            let new =
                || Group { handle: Arc::clone(handle), used: kernel.last_use(handle), files: Vec::new() };
            let group = groups.entry(Arc::as_ptr(handle).addr()).or_insert_with(new);
            group.used = group.used.max(entry.used);
            group.files.push(entry);
        }
        groups.into_values().collect()
    }

    /// Bytes of the tables in the kernel that a process uses.
    fn bytes_of(&self, pid: u32) -> usize {
        let entries = self.used_files.of(pid).filter_map(|number| self.entries.get(self.keys.get(&number)?));
        let ready = entries.filter_map(|entry| match &entry.state {
            State::Ready(handle) => Some(handle.bytes()),
            _ => None,
        });
        ready.sum()
    }

    /// Gives up the tables of files whose file system does not answer. Returns the processes whose mappings have changed by that.
    fn give_up(&mut self) -> HashSet<u32> {
        let mut changed = HashSet::new();
        for number in self.compiler.give_up(PATIENCE) {
            let Some(entry) = self.keys.get(&number).and_then(|key| self.entries.get_mut(key)) else {
                continue;
            };
            tracing::debug!(target: "perfagent", path = entry.file.path(), "unwind table: no answer");
            if matches!(entry.state, State::Pending) {
                self.compiling -= 1;
            }
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
        match entry.state {
            State::Pending => self.compiling -= 1,
            State::Unanswered => {
                self.failed -= 1;
                self.unanswered = self.unanswered.saturating_sub(1);
            }
            _ => {}
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
                    self.warn_of_room(format!(
                        "unwind table of {path} and others: {error}; their stacks may be truncated until there is room"
                    ));
                    State::NoRoom(TableHandle::shape_for(&table))
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
        match &state {
            State::Ready(_) => {
                self.installed.add(file.build_id(), entry.number);
                entry.pauses.has_room(Instant::now());
            }
            State::NoRoom(_) => {
                entry.pauses.pause(Instant::now());
                self.without_room.insert(entry.number);
            }
            _ => {}
        }
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
        let copies = self.installed.with(file.build_id());
        let copies = copies.filter_map(|number| self.entries.get(self.keys.get(&number)?));
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
            let Some(entry) = self.keys.remove(&number).and_then(|key| self.entries.remove(&key)) else {
                continue;
            };
            self.without_room.remove(&number);
            self.installed.remove(entry.file.build_id(), number);
            // A copy of the file may still use the table.
            if let State::Ready(handle) = entry.state
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
