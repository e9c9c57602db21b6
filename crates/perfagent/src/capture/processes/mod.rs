//! The recorded processes and their past: which image a process had when a stack was taken.

mod leaving;
mod past;
mod records;
#[cfg(test)]
mod tests;
mod unread;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kernel::{Kernel, KernelProcess};
use process::{Files, Image};

use super::labels::Labeller;
use super::life::Life;
use super::tables::Tables;

use self::leaving::Leaving;
use self::past::{Process, Program};

use self::unread::Unread;

pub(super) use self::past::Epoch;

/// Images that ended are kept this long for stacks that are still on their way.
const KEPT_NS: u64 = 5_000_000_000;
/// A process that keeps running code outside of its known mappings has them read again at most this often.
const REREAD_NS: u64 = 50_000_000;

/// Whether nothing of a process runs any more: it is gone, or a zombie without other threads.
pub(super) fn has_ended(pid: u32) -> bool {
    let zombie = |state: char| matches!(state, 'Z' | 'X');
    match process::task::stat(pid) {
        Ok(stat) => {
            zombie(stat.state) && process::task::threads(pid).map_or(true, |threads| threads.len() <= 1)
        }
        Err(error) => matches!(error, process::Error::Gone { .. }),
    }
}

/// What changes must be carried into the kernel and when.
pub(super) struct Processes {
    files: Files,
    known: HashMap<u32, Process>,
    dirty: HashSet<u32>,
    leaving: HashMap<u32, Leaving>,
    /// Ended, and when; the programs are still to be told.
    gone: Vec<(u32, u64)>,
    /// Asked for by the programs, but not known here.
    strangers: HashSet<u32>,
    /// Processes that wake threads of targets, asked for but not known here.
    wakers: HashSet<u32>,
    labeller: Labeller,
    /// Those with a name for which it is too early.
    renaming: HashSet<u32>,
    /// Names that no sample shows, as the next one came too soon.
    pub(super) renames_skipped: u64,
    /// Every process is a target.
    system: bool,
    /// Processes that were on this machine at the start or were forked since, kernel threads too; if the whole system is
    /// the target.
    pub(super) met: u64,
    /// Those that were there at the start, and when they were listed.
    listed: (HashSet<u32>, u64),
    /// Processes recorded so far.
    seen: u64,
    /// Of these, those whose mappings, or files with code of theirs, could not be read.
    pub(super) unreadable: u64,
    /// Those whose mappings could not be read.
    unread: Unread,
}

impl Processes {
    pub(super) fn new(labeller: Labeller, system: bool) -> Self {
        Self {
            files: Files::new(),
            known: HashMap::new(),
            dirty: HashSet::new(),
            leaving: HashMap::new(),
            gone: Vec::new(),
            strangers: HashSet::new(),
            wakers: HashSet::new(),
            labeller,
            renaming: HashSet::new(),
            renames_skipped: 0,
            system,
            met: 0,
            listed: (HashSet::new(), 0),
            seen: 0,
            unreadable: 0,
            unread: Unread::default(),
        }
    }

    /// Enters a target. Its end may have been reported before anybody listened.
    pub(super) fn enter_target(&mut self, image: Image, from_ns: u64) {
        self.leaving.insert(image.pid, Leaving::new(from_ns));
        self.enter(image, from_ns);
    }

    /// Enters a process with an image that was just read.
    pub(super) fn enter(&mut self, image: Image, from_ns: u64) {
        let life = Life::met(image.pid, image.start_time_ticks);
        self.enter_program(image, life, from_ns);
    }

    fn enter_program(&mut self, image: Image, life: Life, from_ns: u64) {
        let pid = image.pid;
        self.seen += 1;
        let counted = self.unread.forget(pid);
        let labels = self.labeller.labels(&image);
        let program = Program::new(image, life, labels, from_ns);
        match self.known.entry(pid) {
            Entry::Occupied(known) => {
                let process = known.into_mut();
                process.waker_only = false;
                process.unreadable = counted;
                self.renames_skipped += u64::from(process.begin(program));
            }
            Entry::Vacant(free) => free.insert(Process::new(program)).unreadable = counted,
        }
        self.dirty.insert(pid);
        self.look_for_unreadable_files(pid);
    }

    /// Counts a process with code in a file that could not be opened, once.
    fn look_for_unreadable_files(&mut self, pid: u32) {
        if let Some(process) = self.known.get_mut(&pid).filter(|process| !process.unreadable)
            && process.present().is_some_and(|epoch| epoch.image.has_unreadable_files())
        {
            process.unreadable = true;
            self.unreadable += u64::from(!process.waker_only);
        }
    }

    /// Counts a process that is known by nothing but its number, once. Whether it was the first time.
    pub(super) fn count_unread(&mut self, pid: u32, error: &process::Error) -> bool {
        let first = self.unread.count(pid, error);
        self.unreadable += u64::from(first);
        first
    }

    /// What is to be said about what could not be read of the targets.
    pub(super) fn unread_warnings(&self) -> Vec<crate::Warning> {
        self.unread.warnings(self.files.counts())
    }

    /// The targets so far: of the whole system, all processes that there were.
    pub(super) fn count(&self) -> u64 {
        if self.system { self.met } else { self.seen }
    }

    /// Reads a process.
    pub(super) fn read(&self, pid: u32) -> Result<Image, process::Error> {
        process::read_image(pid, &self.files)
    }

    /// Each living process.
    pub(super) fn current(&self) -> impl Iterator<Item = (u32, Epoch<'_>)> {
        let alive = self.known.iter().filter(|(_, process)| process.alive);
        alive.filter_map(|(pid, process)| Some((*pid, process.present()?)))
    }

    pub(super) fn take_warnings(&mut self) -> Vec<crate::Warning> {
        self.labeller.take_warnings()
    }

    pub(super) fn alive(&self) -> usize {
        self.known.values().filter(|process| process.alive && !process.waker_only).count()
    }

    /// Notes that these processes were there at the start.
    pub(super) fn enter_listed(&mut self, pids: &[u32]) {
        self.met = pids.len() as u64;
        self.listed = (pids.iter().copied().collect(), super::clock::monotonic_ns());
    }

    /// Counts a fork, unless the child was listed.
    fn meet(&mut self, child: u32, time_ns: u64) {
        let (listed, until_ns) = &mut self.listed;
        let again = time_ns <= *until_ns && listed.remove(&child);
        self.met += u64::from(self.system && child != 0 && !again);
        if !again {
            self.unread.forget(child);
        }
    }

    /// The last name of the process that had this number from `start_ns` on, until the next one got it.
    pub(super) fn name(&self, pid: u32, start_ns: u64, next_ns: Option<u64>) -> Option<&str> {
        self.known.get(&pid)?.last_name(start_ns, next_ns)
    }

    /// What a process was at this time, or the first that is known of it.
    pub(super) fn at(&self, pid: u32, time_ns: u64) -> Option<Epoch<'_>> {
        self.known.get(&pid)?.at(time_ns)
    }

    /// The mappings of a process are unknown or out of date.
    pub(super) fn wants_reading(&mut self, pid: u32, waker_only: bool) {
        match self.known.get_mut(&pid).filter(|process| process.alive) {
            Some(process) => {
                process.read_wanted = true;
                self.dirty.insert(pid);
            }
            // A child whose record is still on its way, or a process at its first sight.
            None if waker_only => drop(self.wakers.insert(pid)),
            None => drop(self.strangers.insert(pid)),
        }
    }

    /// Reads the processes that woke threads of targets.
    fn meet_wakers(&mut self) {
        for pid in std::mem::take(&mut self.wakers) {
            if self.known.get(&pid).is_some_and(|process| process.alive) {
                continue;
            }
            match self.read(pid) {
                Ok(image) => {
                    let unreadable = self.unreadable;
                    self.enter(image, 0);
                    self.seen -= 1;
                    self.unreadable = unreadable;
                    if let Some(process) = self.known.get_mut(&pid) {
                        process.waker_only = true;
                    }
                }
                Err(error) => {
                    tracing::debug!(target: "perfagent", pid, "waker: {error}");
                    self.forget_if_ended(pid);
                }
            }
        }
    }

    /// Reads the processes that were asked for and that no record has told of.
    fn meet_strangers(&mut self) {
        for pid in std::mem::take(&mut self.strangers) {
            if self.known.get(&pid).is_some_and(|process| process.alive) {
                self.dirty.insert(pid);
                continue;
            }
            match self.read(pid) {
                Ok(image) => self.enter(image, 0),
                Err(error) => {
                    tracing::debug!(target: "perfagent", pid, "{error}");
                    // A late stack may ask for one that was read in its time.
                    let was_read =
                        matches!(error, process::Error::Gone { .. }) && self.known.contains_key(&pid);
                    self.seen += u64::from(!was_read && self.count_unread(pid, &error));
                    self.forget_if_ended(pid);
                }
            }
        }
    }

    /// The programs have met a process. If it was on its way out, its end has been reported before.
    fn forget_if_ended(&mut self, pid: u32) {
        let now_ns = super::clock::monotonic_ns();
        if has_ended(pid) {
            self.gone.push((pid, now_ns));
        }
    }

    /// Processes whose mappings name tables that have just become ready.
    pub(super) fn touch(&mut self, pids: impl IntoIterator<Item = u32>) {
        self.dirty.extend(pids);
    }

    /// Reads again what has to be, and tells the kernel of everything that changed.
    pub(super) fn carry_over(
        &mut self,
        kernel: &mut Kernel,
        tables: &mut Tables,
    ) -> Result<(), kernel::Error> {
        self.read_again();
        self.take_names();
        let (mut failed, mut again) = (Ok(()), Vec::new());
        for pid in std::mem::take(&mut self.dirty) {
            let Some(process) = self.known.get_mut(&pid).filter(|process| process.alive) else { continue };
            let Some(epoch) = process.present() else { continue };
            let mappings = tables.mappings(epoch.image);
            let waker_only = process.waker_only;
            let process_now = KernelProcess { pid, image: epoch.from_ns, mappings: &mappings, waker_only };
            let recorded = match kernel.update_process(&process_now) {
                Ok(recorded) => recorded,
                Err(error) => {
                    failed = failed.and(Err(error));
                    again.push(pid);
                    continue;
                }
            };
            if !recorded && !self.system {
                let now_ns = super::clock::monotonic_ns();
                process.alive = false;
                self.renames_skipped += u64::from(process.end(now_ns));
                tables.forget(pid);
                self.gone.push((pid, now_ns));
            }
        }
        for (pid, ended_ns) in std::mem::take(&mut self.gone) {
            if self.known.get(&pid).is_none_or(|process| !process.alive) {
                kernel.remove_process(pid, ended_ns);
            }
        }
        self.dirty.extend(again);
        failed
    }

    fn read_again(&mut self) {
        let now = super::clock::monotonic_ns();
        let due =
            |process: &Process| process.alive && process.read_wanted && now - process.read_ns >= REREAD_NS;
        let due: Vec<u32> =
            self.known.iter().filter(|(_, process)| due(process)).map(|(pid, _)| *pid).collect();
        for pid in due {
            let read = process::read_image(pid, &self.files);
            let Some(process) = self.known.get_mut(&pid) else { continue };
            process.read_wanted = false;
            process.read_ns = now;
            let Ok(image) = read else { continue };
            // Another process may have got the number.
            let same = |program: &&mut Program| {
                [0, image.start_time_ticks].contains(&program.image.start_time_ticks)
            };
            if let Some(program) = process.now().filter(same) {
                let comm = image.comm.clone();
                program.image = Arc::new(image);
                self.dirty.insert(pid);
                self.renamed(pid, &comm);
                self.look_for_unreadable_files(pid);
            }
        }
    }

    /// Names whose time has come.
    fn take_names(&mut self) {
        let now_ns = super::clock::monotonic_ns();
        let (known, dirty) = (&mut self.known, &mut self.dirty);
        self.renaming.retain(|pid| {
            let Some(process) = known.get_mut(pid).filter(|process| process.alive) else { return false };
            let taken = process.take_name(now_ns);
            if taken {
                dirty.insert(*pid);
            }
            !taken && process.has_next_name()
        });
    }

    /// Forgets images that ended a while ago.
    pub(super) fn prune(&mut self) {
        let then_ns = super::clock::monotonic_ns().saturating_sub(KEPT_NS);
        self.known.retain(|pid, process| {
            if process.ended_before(then_ns) {
                // What still closes its files may still record something.
                return !has_ended(*pid);
            }
            process.forget_before(then_ns);
            true
        });
        self.files.prune();
    }

    /// Whether the programs may still record something of an image of a process. What is not known here, as a thread of the
    /// kernel's, is looked up in /proc, once for each of `ends`.
    pub(super) fn may_record(&self, pid: u32, image: u64, ends: &mut HashMap<u32, bool>) -> bool {
        match self.known.get(&pid) {
            Some(process) => image == 0 || image >= process.life_from_ns,
            None => !*ends.entry(pid).or_insert_with(|| has_ended(pid)),
        }
    }
}
