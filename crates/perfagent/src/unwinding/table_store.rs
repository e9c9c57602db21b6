//! Unwind tables of the files that recorded processes map: requested, being compiled, in the kernel, or absent.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use kernel::{Kernel, KernelMapping, MappingKind, TableHandle};
use process::{FileKind, Image, MappedFile, Region, RegionKind};
use profile::{Avma, Svma};
use tables::{Answer, Cache, Compiler};
use unwind::{Rule, Table};

use super::file_table::{FileTable, State};
use super::file_tables::FileTables;
use super::making_room::RoomMaker;
use super::mapping_list::{with_nowhere, within_quota};
use super::news::News;
use super::table_warnings::TableWarnings;
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

/// How an address is unwound.
pub(crate) enum UnwindMethod {
    Rule(Rule),
    FramePointer { for_want_of_a_row: bool },
    NotReady,
}

/// The tables of all files of all recorded processes.
pub(crate) struct TableStore {
    compiler: Compiler,
    answers: Receiver<Answer>,
    files: FileTables,
    room: RoomMaker,
    /// Files whose table is being compiled.
    compiling: usize,
    /// Request a table when its file is mapped, not when a sample hits it.
    eager: bool,
    /// Follow frame pointers only.
    disabled: bool,
    told: TableWarnings,
    news: News,
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
        let mut told = TableWarnings::default();
        // Without tables the cache is not used, so its errors do not matter.
        let cache = match cache {
            _ if disabled => Ok(None),
            Some(directory) => Cache::at(directory).map(Some),
            None => Cache::open_default(),
        };
        let cache = cache.unwrap_or_else(|error| {
            told.add(Warning::bare(WarningKind::Tables, error.to_string()));
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
            files: FileTables::default(),
            room: RoomMaker::default(),
            compiling: 0,
            eager,
            disabled,
            told,
            news: News::default(),
            hooks,
        })
    }

    /// The mappings of a process did not fit into the kernel's memory. They are tried again when there is room.
    pub(crate) fn found_no_room(&mut self, pid: u32, mappings: usize, error: &kernel::Error) {
        self.room.add_list(pid, mappings);
        self.told.add_full(format!(
            "mappings of process {pid} and others: {error}; their stacks are truncated until there is room"
        ));
    }

    pub(crate) fn take_warnings(&mut self) -> Vec<Warning> {
        let of_room = self.room.warning(&self.files);
        self.told.take(of_room)
    }

    /// The thread that tells the host program about finished tables; it is told of no further ones.
    pub(crate) fn take_hooks(&mut self) -> HookThread<CompiledTable> {
        std::mem::take(&mut self.hooks)
    }

    /// Tables that could not be compiled, and those that have no room at present, but for those that left and are not needed.
    pub(crate) fn failed(&self) -> u64 {
        self.told.failed() + self.room.missing(&self.files)
    }

    /// What has come since the last call.
    pub(crate) fn take_news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    /// The present epoch: see [`Kernel::begin_epoch`].
    pub(crate) fn epoch(&self) -> u32 {
        self.room.epoch()
    }

    /// How often a table left the kernel for others, so far.
    pub(crate) fn evicted(&self) -> u64 {
        self.room.evicted()
    }

    /// Rules that the kernel side did not take, so far.
    pub(crate) fn rules_left_out(&self) -> u64 {
        self.told.rules_left_out()
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
        if list.left_out > 0 {
            self.told.add_crowded(image.pid, list.entries.len() + list.left_out);
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
        if let Some(entry) = self.files.of_file(file) {
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
            self.files.enter_opening(file, user);
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
        let entry = self.files.enter(file, user);
        if self.eager {
            self.compiling += usize::from(entry.submit(&self.compiler, 0));
        }
        (bias, entry.kind())
    }

    /// How an address of a region is unwound. Requests the table if it is missing.
    pub(crate) fn unwinding_at(&mut self, region: &Region, at: Avma, kernel: &Kernel) -> UnwindMethod {
        let (bias, kind) = self.unwinding(None, region);
        if let Some(file) = region.file() {
            let (epoch, entry) = (self.room.epoch(), self.files.of_file(file));
            if let Some(FileTable { state: State::Ready(handle), used, .. }) = entry {
                *used = epoch;
                let rule = kernel.lookup(handle, Svma(at.0.wrapping_sub(bias)));
                return rule
                    .map_or(UnwindMethod::FramePointer { for_want_of_a_row: true }, UnwindMethod::Rule);
            }
            if let Some(entry) = entry.filter(|_| kind == MappingKind::NotReady) {
                self.compiling += usize::from(entry.want(&self.compiler, epoch));
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
        let epoch = self.room.epoch();
        if let Some(entry) = self.files.of_file(file) {
            self.compiling += usize::from(entry.want(&self.compiler, epoch));
        }
    }

    /// A process has ended or has another image.
    pub(crate) fn forget(&mut self, pid: u32) {
        self.files.forget(pid);
        self.room.has_list(pid);
    }

    /// The list of mappings of a process was written into the kernel.
    pub(crate) fn written(&mut self, pid: u32) {
        self.news.processes.insert(pid);
        self.room.has_list(pid);
    }

    /// Tables that are being compiled, and files that are being opened for theirs.
    pub(crate) fn pending(&self) -> usize {
        self.compiling + self.files.opening()
    }

    /// Puts finished tables into the kernel, waiting up to `timeout` for the first. Returns the processes whose
    /// mappings have changed by that.
    pub(crate) fn install_finished(&mut self, kernel: &mut Kernel, timeout: Duration) -> HashSet<u32> {
        self.files.forget_opened();
        let mut changed = HashSet::new();
        let first = if timeout.is_zero() {
            self.answers.try_recv().ok()
        } else {
            self.answers.recv_timeout(timeout).ok()
        };
        let mut next = first;
        while let Some(answer) = next {
            self.news.of_files = true;
            changed.extend(self.install(kernel, answer));
            next = self.answers.try_recv().ok();
        }
        changed.extend(self.give_up());
        let made = self.room.make(kernel, &mut self.files);
        made.fit.into_iter().for_each(|number| self.try_again(number));
        changed.extend(made.changed);
        changed
    }

    /// Requests a table again that found no room before.
    fn try_again(&mut self, number: u64) {
        self.room.forget_table(number);
        if let Some(entry) = self.files.get_mut(number) {
            let hits = std::mem::take(&mut entry.hits);
            entry.state = State::Wanted;
            self.compiling += usize::from(entry.submit(&self.compiler, hits));
        }
    }

    /// Gives up the tables of files whose file system does not answer. Returns the processes whose mappings have changed by that.
    fn give_up(&mut self) -> HashSet<u32> {
        let mut changed = HashSet::new();
        for number in self.compiler.give_up(PATIENCE) {
            self.news.of_files = true;
            let Some(entry) = self.files.get_mut(number) else { continue };
            tracing::debug!(target: "perfagent", path = entry.file.path(), "unwind table: no answer");
            if matches!(entry.state, State::Pending) {
                self.compiling -= 1;
            }
            entry.state = State::Unanswered;
            self.told.add_unanswered();
            changed.extend(&entry.users);
        }
        changed
    }

    fn install(&mut self, kernel: &mut Kernel, answer: Answer) -> HashSet<u32> {
        let number = answer.key;
        let Some(entry) = self.files.get_mut(number) else { return HashSet::new() };
        let file = Arc::clone(&entry.file);
        match entry.state {
            State::Pending => self.compiling -= 1,
            State::Unanswered => self.told.answered_late(),
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
        let result = match answer.table {
            Ok(table) if table.is_empty() => Ok(None),
            Ok(table) => match self.share_or_install(kernel, &file, &table) {
                Ok(handle) => {
                    self.told.add_left_out(path, &table, handle.rules_left_out());
                    Ok(Some(handle))
                }
                Err(error) => {
                    self.told.add_full(format!(
                        "unwind table of {path} and others: {error}; their stacks may be truncated until there is room"
                    ));
                    Err(TableHandle::shape_for(&table))
                }
            },
            Err(error) => {
                self.told.add_failed(path, error);
                Ok(None)
            }
        };
        if let Ok(Some(handle)) = &result {
            self.files.installed(number, Arc::clone(handle));
        }
        let Some(entry) = self.files.get_mut(number) else { return HashSet::new() };
        match result {
            Ok(Some(_)) => {}
            Ok(None) => entry.state = State::None,
            Err(shape) => self.room.add_table(entry, shape),
        }
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
        let mut copies = self.files.copies(file.build_id()).take(MAX_COMPARED);
        match copies.find(|handle| kernel.is_same_table(handle, table)) {
            Some(handle) => Ok(Arc::clone(handle)),
            None => kernel.install_table(table).map(Arc::new),
        }
    }

    /// Frees tables of files that no recorded process has mapped for a while, and those used least lately before if they are many.
    pub(crate) fn free_unused(&mut self, kernel: &mut Kernel) {
        for entry in self.files.take_unused(!self.told.is_full()) {
            self.room.forget_table(entry.number);
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
        let users = |tables: &TableStore| tables.files.all().map(|entry| entry.users.len()).sum::<usize>();
        assert!(users(&tables) > 0);
        tables.forget(image.pid);
        // Its last stack needs tables.
        image.regions().iter().for_each(|region| tables.request(region));
        assert!(tables.files.all().next().is_some());
        assert_eq!(users(&tables), 0, "nobody would take it out again");
    }
}
