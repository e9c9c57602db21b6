//! The history of each process that is recorded, or was lately.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::ended::has_ended;
use super::history::{Process, ProcessSnapshot};

/// Programs that ended are kept this long for stacks that are still on their way.
const KEPT_NS: u64 = 5_000_000_000;

/// All processes by number.
#[derive(Default)]
pub(crate) struct Histories(HashMap<u32, Process>);

impl Histories {
    /// The history of this number, also if its process has ended.
    pub(super) fn get(&self, pid: u32) -> Option<&Process> {
        self.0.get(&pid)
    }

    /// The same, to be changed.
    pub(super) fn get_mut(&mut self, pid: u32) -> Option<&mut Process> {
        self.0.get_mut(&pid)
    }

    /// Enters the history of a number that has none.
    pub(super) fn insert(&mut self, pid: u32, process: Process) {
        self.0.insert(pid, process);
    }

    /// A living process.
    pub(super) fn living(&self, pid: u32) -> Option<&Process> {
        self.0.get(&pid).filter(|process| process.alive)
    }

    /// A living process, to be changed.
    pub(super) fn living_mut(&mut self, pid: u32) -> Option<&mut Process> {
        self.0.get_mut(&pid).filter(|process| process.alive)
    }

    /// A living process whose program began before a record's time. A record of an older program comes late: the process
    /// was read after records were lost.
    pub(super) fn living_at(&mut self, pid: u32, time_ns: u64) -> Option<&mut Process> {
        self.living_mut(pid).filter(|process| process.begin_ns() < time_ns)
    }

    /// Whether the program that a process runs began no earlier than this.
    pub(super) fn is_newer(&self, pid: u32, time_ns: u64) -> bool {
        self.living(pid).is_some_and(|process| process.begin_ns() >= time_ns)
    }

    /// The numbers of all living processes.
    pub(super) fn living_pids(&self) -> impl Iterator<Item = u32> {
        self.0.iter().filter(|(_, process)| process.alive).map(|(pid, _)| *pid)
    }

    /// Each living process.
    pub(crate) fn current(&self) -> impl Iterator<Item = (u32, ProcessSnapshot<'_>)> {
        let alive = self.0.iter().filter(|(_, process)| process.alive);
        alive.filter_map(|(pid, process)| Some((*pid, process.present()?)))
    }

    /// A living process as it is, and whether it is only known as one that wakes threads.
    pub(crate) fn present(&self, pid: u32) -> Option<(ProcessSnapshot<'_>, bool)> {
        let process = self.living(pid)?;
        Some((process.present()?, process.waker_only))
    }

    /// Whether a process is alive.
    pub(crate) fn is_alive(&self, pid: u32) -> bool {
        self.living(pid).is_some()
    }

    /// Whether a target is alive.
    pub(crate) fn has_living_target(&self) -> bool {
        self.0.values().any(|process| process.alive && !process.waker_only)
    }

    /// What a process was at this time, or the first that is known of it.
    pub(crate) fn at(&self, pid: u32, time_ns: u64) -> Option<ProcessSnapshot<'_>> {
        self.0.get(&pid)?.at(time_ns)
    }

    /// The last name of the process that had this number from `start_ns` on, until the next one got it.
    pub(crate) fn name(&self, pid: u32, start_ns: u64, next_ns: Option<u64>) -> Option<&str> {
        self.0.get(&pid)?.last_name(start_ns, next_ns)
    }

    /// Whether stacks of a program of a process may still come. A process that is not known here, as a kernel thread, is
    /// looked up in /proc; `ends` keeps the answers.
    pub(crate) fn may_record(&self, pid: u32, exec_id: u64, ends: &mut HashMap<u32, bool>) -> bool {
        match self.0.get(&pid) {
            Some(process) => exec_id == 0 || exec_id >= process.life_from_ns,
            None => !*ends.entry(pid).or_insert_with(|| has_ended(pid)),
        }
    }

    /// Lets images take notice of files that were opened. `waiting`: the processes with files that are still to be opened; those whose
    /// files are answered leave it. Gives the processes whose images have changed.
    pub(super) fn settle_files(&mut self, waiting: &mut HashSet<u32>) -> Vec<u32> {
        let mut changed = Vec::new();
        waiting.retain(|pid| {
            let Some(program) = self.living_mut(*pid).and_then(Process::last_program) else { return false };
            if program.image.has_answers() {
                Arc::make_mut(&mut program.image).settle();
                changed.push(*pid);
            }
            program.image.is_opening()
        });
        changed
    }

    /// Forgets programs that ended a while ago.
    pub(super) fn prune(&mut self, now_ns: u64) {
        let then_ns = now_ns.saturating_sub(KEPT_NS);
        self.0.retain(|pid, process| {
            if process.ended_before(then_ns) {
                // A process that still closes its files may still record something.
                return !has_ended(*pid);
            }
            process.forget_before(then_ns);
            true
        });
    }
}
