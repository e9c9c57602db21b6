//! The recorded processes and their history: which program a process ran when a stack was taken.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use events::Mmap;
use kernel::{Life, LifeEvent, RecordedProcess};
use process::{Image, NewMapping};
use profile::{Avma, FileOffset};
use sys::clock::kernel_ns;

use super::changes::Changes;
use super::ended::has_ended;
use super::exec_instance::ExecInstance;
use super::histories::Histories;
use super::history::{Process, Program};
use super::labels::Labeller;
use super::losses::Losses;
use super::names::NameLooks;
use super::nowhere::{LostAt, Nowhere};
use super::rereads::Rereads;
use super::tally::Tally;
use super::target_files::TargetFiles;
use super::target_looks::TargetLooks;
use crate::Error;

/// Time in one round for reading processes again after a loss.
const SWEEP_TIME: Duration = Duration::from_millis(3);

/// How long a round waits for files that it has just asked for. Most file systems answer within it.
const OPEN_TIME: Duration = Duration::from_millis(1);

/// All processes that are recorded, or were lately.
pub(crate) struct Processes {
    files: TargetFiles,
    /// Processes with files that are still to be opened.
    waiting: HashSet<u32>,
    known: Histories,
    labeller: Labeller,
    changes: Changes,
    rereads: Rereads,
    nowhere: Nowhere,
    looks: NameLooks,
    target_looks: TargetLooks,
    losses: Losses,
    /// A target that was read again had mappings without a record.
    has_missed_mappings: bool,
    tally: Tally,
    /// Every process is a target.
    system: bool,
}

impl Processes {
    pub(crate) fn new(labeller: Labeller, system: bool) -> Result<Self, Error> {
        Ok(Self {
            files: TargetFiles::start()?,
            waiting: HashSet::new(),
            known: Histories::default(),
            labeller,
            changes: Changes::default(),
            rereads: Rereads::default(),
            nowhere: Nowhere::default(),
            looks: NameLooks::default(),
            target_looks: TargetLooks::default(),
            losses: Losses::default(),
            has_missed_mappings: false,
            tally: Tally::new(system),
            system,
        })
    }

    /// Reads a process. Its files are opened meanwhile.
    pub(crate) fn read(&mut self, pid: u32) -> Result<Image, process::Error> {
        self.files.read(pid, None, true)
    }

    /// Reads a target before its life is followed, so that its files are opened by the time it is.
    pub(crate) fn read_early(&mut self, pid: u32) -> Result<(), process::Error> {
        self.files.read_early(pid)
    }

    /// The targets that were read early and not again.
    pub(crate) fn early(&self) -> impl Iterator<Item = &Image> {
        self.files.early()
    }

    /// Files that are still to be opened.
    pub(crate) fn opening(&self) -> usize {
        self.files.pending()
    }

    /// Takes in which files were opened, after waiting for them for no longer than `wait`. Gives the processes that map them.
    pub(crate) fn take_opened(&mut self, wait: Duration) -> Vec<u32> {
        let opened = self.files.take(wait);
        let changed =
            if opened.answered > 0 { self.known.settle_files(&mut self.waiting) } else { Vec::new() };
        for pid in &changed {
            self.changes.changed.insert(*pid);
            self.look_at_files(*pid);
        }
        for file in opened.late {
            let late = self.known.current().filter(|(_, now)| now.image.maps(&file)).map(|(pid, _)| pid);
            late.for_each(|pid| self.rereads.want(pid));
        }
        changed
    }

    /// Enters a target that was just read. If it had ended before its life was followed, no record tells that.
    pub(crate) fn enter_target(&mut self, image: Image, from_ns: u64) {
        let pid = image.pid;
        self.enter(image, from_ns);
        self.target_looks.add(pid);
        if has_ended(pid) {
            self.end(pid, kernel_ns());
        }
    }

    /// Finds targets whose end no record told of. To be called in each round, after its records, which are complete up to `complete_ns`; it looks
    /// about once a second.
    pub(crate) fn look_for_ended_targets(&mut self, complete_ns: u64) {
        self.look_for_ended_targets_at(kernel_ns(), complete_ns);
    }

    fn look_for_ended_targets_at(&mut self, now_ns: u64, complete_ns: u64) {
        for pid in self.target_looks.take_due(now_ns, |pid| self.known.is_alive(pid)) {
            let start = self.known.present(pid).map_or(0, |(now, _)| now.image.start_time_ticks);
            // Another process may have got the number meanwhile.
            let is_another =
                || start != 0 && process::task::start_time(pid).is_ok_and(|other| other != start);
            if has_ended(pid) || is_another() {
                self.target_looks.add_gone(pid, now_ns);
            }
        }
        for (pid, seen_ns) in self.target_looks.take_gone(complete_ns) {
            self.end(pid, seen_ns);
        }
    }

    /// Enters a process with an image that was just read.
    pub(crate) fn enter(&mut self, image: Image, from_ns: u64) {
        let instance = ExecInstance::met(image.pid, image.start_time_ticks);
        self.enter_program(image, instance, from_ns, kernel_ns());
    }

    fn enter_program(&mut self, image: Image, instance: ExecInstance, from_ns: u64, known_ns: u64) {
        let pid = image.pid;
        self.tally.seen += 1;
        let counted = self.tally.unread.forget(pid);
        let labels = self.labeller.labels(&image);
        let program = Program::new(image, instance, labels, from_ns, known_ns);
        if let Some(process) = self.known.get_mut(pid) {
            process.waker_only = false;
            process.unreadable = counted;
            process.begin(program);
        } else {
            let mut process = Process::new(program);
            process.unreadable = counted;
            self.known.insert(pid, process);
        }
        self.changes.changed.insert(pid);
        self.look_at_files(pid);
    }

    /// The image of a process has changed: notes whether files of it are still to be opened, and counts a process with code in a file that
    /// could not be opened, once.
    fn look_at_files(&mut self, pid: u32) {
        if self.known.present(pid).is_some_and(|(now, _)| now.image.is_opening()) {
            self.waiting.insert(pid);
        }
        if let Some(process) = self.known.get_mut(pid).filter(|process| !process.unreadable)
            && process.present().is_some_and(|now| now.image.has_unreadable_files())
        {
            process.unreadable = true;
            self.tally.unreadable += u64::from(!process.waker_only);
        }
    }

    /// Counts a process whose number alone is known. It counts once.
    pub(crate) fn count_unread(&mut self, pid: u32, error: &process::Error) {
        self.tally.count_unread(pid, error);
    }

    /// Notes that these processes are there at the start.
    pub(crate) fn enter_listed(&mut self, pids: &[u32]) {
        self.tally.list(pids, kernel_ns());
    }

    /// Takes in what happened to a process. Whether that concerns a known one.
    pub(crate) fn follow(&mut self, life: &Life) -> bool {
        let Life { pid, time_ns, event } = life;
        match event {
            LifeEvent::Fork { parent } if !self.known.is_newer(*pid, *time_ns) => {
                self.tally.meet(*pid, *time_ns);
                self.forked(*parent, *pid, *time_ns);
            }
            LifeEvent::Exec { comm } => self.executed(*pid, *time_ns, comm),
            LifeEvent::Exit { comm, .. } => {
                self.renamed(*pid, comm, *time_ns);
                self.end(*pid, *time_ns);
                self.tally.unread.end(*pid);
            }
            LifeEvent::Rename { comm } => {
                self.renamed(*pid, comm, *time_ns);
            }
            LifeEvent::LookAgain => self.looks.plan(*pid, *time_ns),
            _ => {}
        }
        self.known.get(*pid).is_some()
    }

    fn forked(&mut self, parent: u32, child: u32, time_ns: u64) {
        let parent = self.known.get(parent).filter(|process| !process.waker_only);
        let Some(snapshot) = parent.and_then(|parent| parent.at(time_ns)) else { return };
        let (mut image, comm) = (Image::clone(snapshot.image), snapshot.comm.to_owned());
        let start = process::task::start_time(child).unwrap_or_default();
        (image.pid, image.comm, image.start_time_ticks) = (child, comm, start);
        self.enter_program(image, ExecInstance::begun(child, start, time_ns), time_ns, time_ns);
    }

    fn executed(&mut self, pid: u32, time_ns: u64, comm: &str) {
        if self.known.is_newer(pid, time_ns) {
            return;
        }
        let exe =
            std::fs::read_link(format!("/proc/{pid}/exe")).ok().map(|exe| exe.to_string_lossy().into_owned());
        let image = |start| Image::new(pid, start, comm.to_owned(), exe, Vec::new());
        let Some(process) = self.known.living_mut(pid) else {
            if self.system {
                // Its mappings come with the records that follow.
                let start = process::task::start_time(pid).unwrap_or_default();
                self.enter_program(image(start), ExecInstance::begun(pid, start, time_ns), time_ns, time_ns);
                self.changes.executed.push(pid);
            }
            return;
        };
        let Some(start) = process.last_program().map(|program| program.image.start_time_ticks) else {
            return;
        };
        let image = image(start);
        let labels = self.labeller.labels(&image);
        let instance = ExecInstance::begun(pid, start, time_ns);
        process.begin(Program::new(image, instance, labels, time_ns, time_ns));
        self.looks.forget(pid);
        self.nowhere.forget(pid);
        self.rereads.want_at_once(pid);
        self.changes.released.push(pid);
        self.changes.changed.insert(pid);
        self.changes.executed.push(pid);
    }

    /// A process has this name from `from_ns` on. Whether that is another one.
    fn renamed(&mut self, pid: u32, comm: &str, from_ns: u64) -> bool {
        let Some(process) = self.known.living_at(pid, from_ns) else { return false };
        let renamed = process.rename(comm, from_ns);
        if renamed {
            self.changes.changed.insert(pid);
        }
        renamed
    }

    fn end(&mut self, pid: u32, time_ns: u64) {
        let Some(process) = self.known.living_at(pid, time_ns) else { return };
        process.alive = false;
        process.end(time_ns);
        self.rereads.forget(pid);
        self.nowhere.forget(pid);
        self.looks.forget(pid);
        self.changes.released.push(pid);
        self.changes.ended.push((pid, time_ns));
    }

    /// A process has made a mapping. Whether that concerns a known one.
    pub(crate) fn mapped(&mut self, mmap: &Mmap) -> bool {
        let Some(process) = self.known.living_mut(mmap.pid) else {
            return false;
        };
        let is_target = !process.waker_only;
        let Some(program) = process.last_program() else { return false };
        let mapping = NewMapping {
            start: Avma(mmap.address),
            len: mmap.len,
            offset: FileOffset(mmap.file_offset),
            dev_major: mmap.dev_major,
            dev_minor: mmap.dev_minor,
            inode: mmap.inode,
            executable: mmap.executable,
            path: &mmap.path,
        };
        self.files.map(Arc::make_mut(&mut program.image), &mapping, is_target);
        self.changes.changed.insert(mmap.pid);
        self.look_at_files(mmap.pid);
        true
    }

    /// The programs ask for the mappings of a process. One that is not known here is older than the capture: the record
    /// of a younger one would have come before.
    /// `is_new`: they have none yet, so they get at once what is known here.
    pub(crate) fn asked_for(&mut self, pid: u32, waker_only: bool, is_new: bool) {
        if self.known.is_alive(pid) {
            self.rereads.want(pid);
            if is_new {
                self.rereads.change_at_once(pid);
                self.changes.changed.insert(pid);
            }
            return;
        }
        // The number of a process that ended goes to another one with a record of its fork, unless that is no target.
        // So this one was met on its way out, after its end was told.
        if !waker_only && self.known.get(pid).is_some() {
            self.changes.ended.push((pid, kernel_ns()));
            return;
        }
        let begun_ns = kernel_ns();
        let read = self.files.read(pid, None, !waker_only);
        self.rereads.read(pid, begun_ns, kernel_ns());
        match read {
            Ok(image) if waker_only => self.enter_waker(image),
            Ok(image) => self.enter(image, 0),
            Err(error) => {
                tracing::debug!(target: "perfagent", pid, "{error}");
                if !waker_only {
                    self.tally.seen += u64::from(self.tally.count_unread(pid, &error));
                }
                // If it was on its way out, its end has been told before.
                if has_ended(pid) {
                    self.changes.ended.push((pid, kernel_ns()));
                }
            }
        }
    }

    /// Enters a process that is no target, but woke a thread of one.
    fn enter_waker(&mut self, image: Image) {
        let (pid, seen, unreadable) = (image.pid, self.tally.seen, self.tally.unreadable);
        self.enter(image, 0);
        (self.tally.seen, self.tally.unreadable) = (seen, unreadable);
        if let Some(process) = self.known.get_mut(pid) {
            process.waker_only = true;
        }
    }

    /// Takes in how many records were lost so far. True if the processes are to be compared with those that the kernel side
    /// records: see [`Self::compare`].
    pub(crate) fn take_losses(&mut self, losses: Losses) -> bool {
        let before = std::mem::replace(&mut self.losses, losses);
        let life = losses.of_life_since(before);
        if life || losses.of_mappings_since(before) {
            self.rereads.want_all();
        }
        self.rereads.is_comparison_due(life, kernel_ns())
    }

    /// After lost records of process life: finds the ends, execs and processes that were not reported. `recorded`: the processes that
    /// the kernel side records now.
    pub(crate) fn compare(&mut self, recorded: &[RecordedProcess]) {
        let now_ns = kernel_ns();
        let recorded: HashMap<u32, &RecordedProcess> = recorded.iter().map(|one| (one.pid, one)).collect();
        let missing: Vec<u32> = self.known.living_pids().filter(|pid| !recorded.contains_key(pid)).collect();
        for pid in missing {
            // Of the whole system the kernel side knows only processes that were sampled.
            if !self.system || has_ended(pid) {
                self.end(pid, now_ns);
            }
        }
        for (pid, recorded) in &recorded {
            match self.known.living(*pid) {
                None if !recorded.waker_only => self.rereads.meet(*pid, recorded.exec_id),
                Some(process) if recorded.exec_id > process.known_ns() => {
                    self.missed_exec(*pid, recorded.exec_id)
                }
                _ => {}
            }
        }
        if self.system {
            for pid in process::task::list_processes().unwrap_or_default() {
                let unknown = !self.known.is_alive(pid);
                if unknown
                    && !recorded.contains_key(&pid)
                    && !process::task::is_kernel_thread(pid).unwrap_or(true)
                {
                    self.rereads.meet(pid, now_ns);
                }
            }
        }
    }

    fn missed_exec(&mut self, pid: u32, exec_id: u64) {
        let comm = process::task::comm(pid).unwrap_or_default();
        self.executed(pid, exec_id, &comm);
    }

    /// Reads processes again where that is wanted, and names that are due.
    pub(crate) fn read_again(&mut self) {
        let now_ns = kernel_ns();
        for pid in self.rereads.due(now_ns) {
            if self.rereads.take(pid) {
                let begun_ns = kernel_ns();
                self.reread(pid);
                self.rereads.read(pid, begun_ns, kernel_ns());
                // Also if nothing was read: the programs may ask again.
                self.changes.changed.insert(pid);
                self.look_for_nowhere(pid);
            }
        }
        let known = &self.known;
        self.rereads.begin_sweep(now_ns, || known.living_pids().collect());
        let begun = Instant::now();
        while begun.elapsed() < SWEEP_TIME {
            if let Some((pid, from_ns)) = self.rereads.next_unknown() {
                self.meet_unknown(pid, from_ns);
            } else if let Some(pid) = self.rereads.next_of_sweep() {
                self.reread(pid);
            } else {
                break;
            }
        }
        for pid in self.looks.take_due(now_ns) {
            if let Ok(comm) = process::task::comm(pid)
                && self.renamed(pid, &comm, kernel_ns())
            {
                self.looks.count_taken();
            }
        }
        let wait = if self.files.were_asked_for() { OPEN_TIME } else { Duration::ZERO };
        self.take_opened(wait);
    }

    /// Enters a process that no record has told of, as records were lost.
    fn meet_unknown(&mut self, pid: u32, from_ns: u64) {
        if self.known.is_alive(pid) {
            return;
        }
        match self.read(pid) {
            Ok(image) => {
                self.tally.meet(pid, from_ns);
                self.enter(image, from_ns);
            }
            Err(error) => self.tally.seen += u64::from(self.tally.count_unread(pid, &error)),
        }
    }

    fn reread(&mut self, pid: u32) {
        let Some(process) = self.known.living_mut(pid) else { return };
        let before = process.present().map(|now| now.image.as_ref());
        let is_target = !process.waker_only;
        let ranges = |image: &Image| {
            image.regions().iter().map(|region| (region.start, region.end)).collect::<Vec<_>>()
        };
        let before_ranges = before.map(&ranges);
        let Ok(image) = self.files.read(pid, before, is_target) else { return };
        // One that has ended shows no mappings any more, or a part of them. Stacks of its life are still to be walked.
        if image.regions().is_empty() || has_ended(pid) {
            return;
        }
        // Another process may have got the number.
        let same =
            |program: &&mut Program| [0, image.start_time_ticks].contains(&program.image.start_time_ticks);
        let Some(program) = process.last_program().filter(same) else { return };
        let comm = image.comm.clone();
        self.has_missed_mappings |= is_target && before_ranges.is_some_and(|before| before != ranges(&image));
        program.image = Arc::new(image);
        self.changes.changed.insert(pid);
        self.renamed(pid, &comm, kernel_ns());
        self.look_at_files(pid);
    }

    /// Processes whose mappings name tables that have just become ready.
    pub(crate) fn touch(&mut self, pids: impl IntoIterator<Item = u32>) {
        self.changes.changed.extend(pids);
    }

    /// The changes since the last call. Those of a process whose mappings cost much to carry over come now and then only.
    pub(crate) fn take_changes(&mut self) -> Changes {
        let mut changes = std::mem::take(&mut self.changes);
        let now_ns = kernel_ns();
        let held_back = changes.changed.extract_if(|pid| !self.rereads.may_change(*pid, now_ns));
        self.changes.changed = held_back.collect();
        changes
    }

    /// To carry over the mappings of a process has cost so much.
    pub(crate) fn charge(&mut self, pid: u32, cost: Duration) {
        self.rereads.charge(pid, kernel_ns(), u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX));
    }

    /// A stack of a process led to an address in no mapping.
    pub(crate) fn lost_at(&mut self, lost: LostAt) {
        if self.known.is_alive(lost.pid) {
            self.nowhere.add(lost);
            self.look_for_nowhere(lost.pid);
        }
    }

    /// Finds out to which addresses stacks led before the process was last read, and are in no mapping.
    fn look_for_nowhere(&mut self, pid: u32) {
        let Some(read_ns) = self.rereads.last_read(pid) else { return };
        let Some((now, _)) = self.known.present(pid) else { return };
        if self.nowhere.look(pid, now.image, read_ns) {
            // Each further sample would be sent. A process has few such addresses.
            self.rereads.change_at_once(pid);
            self.changes.changed.insert(pid);
        }
    }

    /// Ranges in no mapping of a process that its stacks led to.
    pub(crate) fn nowhere(&self, pid: u32) -> &[std::ops::Range<u64>] {
        self.nowhere.of(pid)
    }

    /// Processes whose program has ended since the last call: their tables are needed no more.
    pub(crate) fn take_released(&mut self) -> impl Iterator<Item = u32> + use<> {
        std::mem::take(&mut self.changes.released).into_iter()
    }

    /// Processes that have executed another program since the last call.
    pub(crate) fn take_executed(&mut self) -> impl Iterator<Item = u32> + use<> {
        std::mem::take(&mut self.changes.executed).into_iter()
    }

    /// Reads parts of the memory of a process, given as address and length, each as far as it is readable. `None`: a page does not come
    /// within a moment.
    pub(crate) fn read_memory(&self, pid: u32, parts: Vec<(u64, usize)>) -> Option<Vec<Vec<u8>>> {
        self.files.read_memory(pid, parts)
    }

    /// The history of each process.
    pub(crate) fn histories(&self) -> &Histories {
        &self.known
    }

    /// Forgets programs that ended a while ago, and files that nobody maps any more.
    pub(crate) fn prune(&mut self) {
        self.known.prune(kernel_ns());
        self.files.prune();
        self.tally.unread.prune();
    }

    /// What was lost so far.
    pub(crate) fn losses(&self) -> Losses {
        self.losses
    }

    /// The counts of processes.
    pub(crate) fn counts(&self) -> ProcessCounts {
        let Tally { unreadable, .. } = self.tally;
        ProcessCounts { targets: self.tally.targets(), met: self.tally.met(), unreadable }
    }

    /// The number of names that no sample shows. `skipped`: the names that the kernel side has not sent.
    pub(crate) fn names_never_shown(&self, skipped: u64) -> u64 {
        self.looks.never_shown(skipped)
    }

    /// Warnings about labels, losses and, if stacks are taken, about files and mappings of targets that could not be read.
    pub(crate) fn take_warnings(&mut self, stacks: bool) -> Vec<crate::Warning> {
        let mut warnings = self.labeller.take_warnings();
        warnings.extend(self.losses.warnings(self.system || self.has_missed_mappings));
        if stacks {
            warnings.extend(self.tally.unread.warnings(self.files.failures()));
        }
        warnings
    }
}

/// How many processes there were.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessCounts {
    /// The targets; with the whole system as target, all processes that existed.
    pub(crate) targets: u64,
    /// Processes of this machine, if all are targets.
    pub(crate) met: u64,
    /// Targets whose mappings or files with code could not be read.
    pub(crate) unreadable: u64,
}

#[cfg(test)]
mod tests;
