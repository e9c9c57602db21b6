//! Which processes and threads the file tells of so far.
//!
//! A number belongs to one program after the other, by exec or because the number is used again. Readers put records in order of time, and the
//! last name and mappings before a sample are those of its program. So a record of an earlier program must stand before the first one of
//! the next; where its time would be later, because it is late, it must not be written.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::processes::ExecInstance;

/// Threads that are remembered at most for each program; names of others are told again.
const MAX_THREADS: usize = 65_536;
/// Programs that are remembered of a number. Nothing is written of older ones.
const MAX_PROGRAMS: usize = 64;

/// A program of a number, as the file shows it.
#[derive(Debug)]
pub(super) struct Program {
    /// `None` if it is not known.
    pub(super) instance: Option<Arc<ExecInstance>>,
    /// When it began, at the latest the time of its first sample.
    pub(super) begin_ns: u64,
    /// The time of its first record in the file.
    pub(super) written_ns: u64,
}

#[derive(Debug)]
struct Told {
    program: Program,
    threads: HashSet<u32>,
}

#[derive(Debug, Default)]
struct Known {
    /// By their begin.
    programs: VecDeque<Told>,
    /// There were programs before these.
    is_cut: bool,
    /// 0 if it is not known.
    parent: u32,
    /// The round in which the last program ended.
    ended_in: Option<u64>,
}

/// Processes with their threads.
#[derive(Debug, Default)]
pub(super) struct Announced {
    processes: HashMap<u32, Known>,
    /// Processes that ended in this round, and in the one before. Samples of them may still be written.
    ended: [Vec<u32>; 2],
    round: u64,
}

impl Known {
    /// The number of the programs that began before a time or at it.
    fn begun(&self, time_ns: u64) -> usize {
        self.programs.partition_point(|told| told.program.begin_ns <= time_ns)
    }

    /// The position of the program of a time. `None`: it is forgotten.
    fn position(&self, time_ns: u64) -> Option<usize> {
        match self.begun(time_ns).checked_sub(1) {
            // It began earlier than is known.
            None => (!self.is_cut).then_some(0),
            position => position,
        }
    }

    fn limit(&mut self) {
        if self.programs.len() > MAX_PROGRAMS {
            self.programs.pop_front();
            self.is_cut = true;
        }
    }
}

impl Announced {
    pub(super) fn knows(&self, pid: u32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// A program begins, in a process made by `parent` if that is known: no later one is known.
    pub(super) fn begin(&mut self, pid: u32, parent: u32, program: Program) {
        let known = self.processes.entry(pid).or_default();
        (known.parent, known.ended_in) = (parent, None);
        let at = known.begun(program.begin_ns);
        known.programs.truncate(at);
        known.programs.push_back(Told { program, threads: HashSet::from([pid]) });
        known.limit();
    }

    /// Enters a program among others of its number, if the file lacks it and its records can still stand in order. Returns the time for its
    /// records; nothing may be written before `floor_ns`.
    pub(super) fn enter(
        &mut self,
        pid: u32,
        instance: &Arc<ExecInstance>,
        begin_ns: u64,
        floor_ns: u64,
    ) -> Option<u64> {
        let known = self.processes.entry(pid).or_default();
        let is_it = |told: &Told| told.program.instance.as_ref().is_some_and(|of| Arc::ptr_eq(of, instance));
        if known.programs.iter().any(is_it) {
            return None;
        }
        let at = known.begun(begin_ns);
        if at == 0 && known.is_cut {
            return None;
        }
        let before = at.checked_sub(1).and_then(|before| known.programs.get_mut(before));
        let mut written_ns = floor_ns;
        if let Some(Told { program, .. }) = before {
            // One that began at this very time is this one.
            if program.instance.is_none() && program.begin_ns == begin_ns {
                program.instance = Some(Arc::clone(instance));
                return None;
            }
            written_ns = written_ns.max(program.written_ns);
        }
        if known.programs.get(at).is_some_and(|next| next.program.written_ns <= written_ns) {
            return None;
        }
        if at == known.programs.len() {
            known.ended_in = None;
        }
        let program = Program { instance: Some(Arc::clone(instance)), begin_ns, written_ns };
        known.programs.insert(at, Told { program, threads: HashSet::from([pid]) });
        known.limit();
        Some(written_ns)
    }

    /// Whether a record of a time can be written, if nothing may be written before `floor_ns`: it does not fall behind the begin of the
    /// next program of the number.
    pub(super) fn may_write(&self, pid: u32, time_ns: u64, floor_ns: u64) -> bool {
        let Some(known) = self.processes.get(&pid) else { return true };
        let Some(position) = known.position(time_ns) else { return false };
        let next = known.programs.get(position + 1);
        next.is_none_or(|next| time_ns.max(floor_ns) < next.program.written_ns)
    }

    /// Whether the program of a time is the last one of its number, and has not ended.
    pub(super) fn is_present(&self, pid: u32, time_ns: u64) -> bool {
        let Some(known) = self.processes.get(&pid) else { return false };
        let is_last = known.position(time_ns).is_some_and(|position| position + 1 >= known.programs.len());
        is_last && known.ended_in.is_none()
    }

    /// The parent of a process; 0 if it is not known.
    pub(super) fn parent(&self, pid: u32) -> u32 {
        self.processes.get(&pid).map_or(0, |known| known.parent)
    }

    /// Notes the parent of a process.
    pub(super) fn set_parent(&mut self, pid: u32, parent: u32) {
        if let Some(known) = self.processes.get_mut(&pid) {
            known.parent = parent;
        }
    }

    /// Registers a thread of the program that ran at a time. True if the thread is new.
    pub(super) fn tell(&mut self, pid: u32, tid: u32, time_ns: u64) -> bool {
        let Some(known) = self.processes.get_mut(&pid) else { return false };
        let Some(position) = known.position(time_ns) else { return false };
        let Some(Told { threads, .. }) = known.programs.get_mut(position) else { return false };
        if threads.len() >= MAX_THREADS {
            threads.clear();
        }
        threads.insert(tid)
    }

    /// The thread ended: the next one with its number is another one.
    pub(super) fn forget_thread(&mut self, pid: u32, tid: u32) {
        if let Some(told) = self.processes.get_mut(&pid).and_then(|known| known.programs.back_mut()) {
            told.threads.remove(&tid);
        }
    }

    pub(super) fn end(&mut self, pid: u32) {
        if let Some(known) = self.processes.get_mut(&pid) {
            known.ended_in = Some(self.round);
            self.ended[0].push(pid);
        }
    }

    /// Ends a round: forgets processes that ended before it, unless another one has the number. A process that got the number of a forgotten
    /// one is told again.
    pub(super) fn end_round(&mut self) {
        let ended = std::mem::take(&mut self.ended[0]);
        for pid in std::mem::replace(&mut self.ended[1], ended) {
            // Another one may have ended since then.
            let ended_in = self.processes.get(&pid).and_then(|known| known.ended_in);
            if ended_in.is_some_and(|round| round < self.round) {
                self.processes.remove(&pid);
            }
        }
        self.round += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(begin_ns: u64) -> Program {
        let instance = Some(Arc::new(ExecInstance::met(7, begin_ns)));
        Program { instance, begin_ns, written_ns: begin_ns }
    }

    #[test]
    fn a_process_that_ended_is_forgotten_two_rounds_later_and_a_thread_at_once() {
        let mut announced = Announced::default();
        announced.begin(7, 1, program(10));
        assert_eq!((announced.parent(7), announced.parent(8)), (1, 0));
        assert!(!announced.tell(7, 7, 10) && announced.tell(7, 8, 11) && !announced.tell(7, 8, 12));
        announced.forget_thread(7, 8);
        assert!(announced.tell(7, 8, 13));
        announced.end(7);
        announced.end_round();
        assert!(announced.knows(7), "samples of it may still be written");
        announced.end_round();
        assert!(!announced.knows(7));
    }

    #[test]
    fn the_next_process_with_a_number_is_not_forgotten_with_the_one_before() {
        let mut announced = Announced::default();
        announced.begin(7, 1, program(10));
        announced.end(7);
        announced.begin(7, 2, program(50));
        announced.end_round();
        announced.end_round();
        assert!(announced.knows(7) && announced.is_present(7, 60) && !announced.is_present(7, 20));
        assert_eq!(announced.parent(7), 2);
        assert!(announced.tell(7, 9, 20) && announced.tell(7, 9, 60), "a thread of each of them");
        announced.end(7);
        announced.end_round();
        announced.begin(7, 3, program(80));
        announced.end(7);
        announced.end_round();
        assert!(announced.knows(7), "the last one has just ended");
        announced.end_round();
        assert!(!announced.knows(7));
    }

    #[test]
    fn late_records_are_written_before_the_next_program_or_not_at_all() {
        let mut announced = Announced::default();
        announced.begin(7, 1, program(100));
        announced.begin(7, 1, program(200));
        let may = |floor_ns| [50, 150, 250].map(|time_ns| announced.may_write(7, time_ns, floor_ns));
        assert_eq!(may(0), [true, true, true]);
        assert_eq!(may(199), [true, true, true]);
        assert_eq!(may(200), [false, false, true], "it would be of the next program");
        assert!(announced.may_write(8, 1, 1000), "of another process nothing is known");
    }

    #[test]
    fn of_programs_that_are_forgotten_nothing_is_written() {
        let mut announced = Announced::default();
        let count = MAX_PROGRAMS as u64 + 5;
        (1..=count).for_each(|at| announced.begin(7, 1, program(100 * at)));
        let late = Arc::new(ExecInstance::met(7, 1));
        assert_eq!(announced.enter(7, &late, 150, 0), None);
        assert_eq!([150, 650].map(|time_ns| announced.may_write(7, time_ns, 0)), [false, true]);
        assert!(!announced.tell(7, 9, 150) && announced.tell(7, 9, 650));
    }

    #[test]
    fn a_program_is_entered_where_its_records_can_stand() {
        let mut announced = Announced::default();
        let [early, middle, late] = [1, 2, 3].map(|ticks| Arc::new(ExecInstance::met(7, ticks)));
        announced.begin(7, 1, Program { instance: Some(late.clone()), begin_ns: 200, written_ns: 200 });
        assert_eq!(announced.enter(7, &late, 200, 0), None, "it is told");
        assert_eq!(announced.enter(7, &early, 10, 20), Some(20));
        assert_eq!(announced.enter(7, &middle, 100, 20), Some(20), "behind the one before");
        assert_eq!(announced.enter(7, &middle, 100, 20), None);
        let other = Arc::new(ExecInstance::met(7, 4));
        assert_eq!(announced.enter(7, &other, 150, 200), None, "the next one has begun in the file");
        assert_eq!(announced.enter(7, &other, 300, 250), Some(250));
        assert!(announced.is_present(7, 300));
    }
}
