//! What a process was when: its programs one after the other, and under which names each ran.

use std::sync::Arc;

use process::Image;
use profile::Label;

use super::super::life::Life;

/// A process takes another name at most this often: one that renames itself without end would fill our memory with names
/// and the kernel's with stacks that differ in nothing else.
const RENAMED_EVERY_NS: u64 = 100_000_000;

/// Labels and executable memory of a process at one time.
#[derive(Clone, Copy)]
pub(in super::super) struct Epoch<'a> {
    pub(in super::super) image: &'a Arc<Image>,
    pub(in super::super) life: &'a Arc<Life>,
    /// The name of the process.
    pub(in super::super) comm: &'a str,
    /// The labels but for number and name.
    pub(in super::super) labels: &'a [Label],
    /// Since when all of this holds.
    pub(in super::super) from_ns: u64,
}

/// One program, from fork or exec to the next exec or the end.
pub(super) struct Program {
    pub(super) image: Arc<Image>,
    pub(super) life: Arc<Life>,
    labels: Arc<Vec<Label>>,
    /// Oldest first, at least one.
    names: Vec<Name>,
    ended_ns: Option<u64>,
}

struct Name {
    from_ns: u64,
    comm: String,
}

/// A process, and those that had its number shortly before.
pub(super) struct Process {
    /// Oldest first, at least one.
    programs: Vec<Program>,
    pub(super) alive: bool,
    /// Begin of the life of the present or last process of this number.
    pub(super) life_from_ns: u64,
    /// It is no target: it wakes threads of targets.
    pub(super) waker_only: bool,
    /// It was counted as one of which not everything could be read.
    pub(super) unreadable: bool,
    pub(super) read_ns: u64,
    pub(super) read_wanted: bool,
    /// A name for which it is too early.
    next_name: Option<String>,
}

/// What came of a change of name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renamed {
    /// It holds from now on.
    Now,
    /// It comes later, unless yet another name comes first. `instead`: that of another one that never held.
    Later { instead: bool },
    /// The process has this name.
    Not { instead: bool },
}

impl Program {
    /// A program that runs from `from_ns` on.
    pub(super) fn new(image: Image, life: Life, labels: Arc<Vec<Label>>, from_ns: u64) -> Self {
        let names = vec![Name { from_ns, comm: image.comm.clone() }];
        Self { image: Arc::new(image), life: Arc::new(life), labels, names, ended_ns: None }
    }

    fn begin_ns(&self) -> u64 {
        self.names.first().map_or(0, |name| name.from_ns)
    }

    fn end(&mut self, at_ns: u64) {
        self.ended_ns.get_or_insert(at_ns);
        self.life.end(at_ns);
    }

    fn epoch<'a>(&'a self, name: &'a Name) -> Epoch<'a> {
        let Self { image, life, labels, .. } = self;
        Epoch { image, life, comm: &name.comm, labels, from_ns: name.from_ns }
    }

    fn at(&self, time_ns: u64) -> Option<Epoch<'_>> {
        let name = self.names.iter().rev().find(|name| name.from_ns <= time_ns).or(self.names.first())?;
        Some(self.epoch(name))
    }
}

impl Process {
    /// A process that nothing is known of before its first program.
    pub(super) fn new(program: Program) -> Self {
        Self {
            alive: true,
            life_from_ns: program.begin_ns(),
            programs: vec![program],
            waker_only: false,
            unreadable: false,
            read_ns: 0,
            read_wanted: false,
            next_name: None,
        }
    }

    /// Another process has got the number, or this one has another program. Whether a name was left out that way.
    pub(super) fn begin(&mut self, program: Program) -> bool {
        let from_ns = program.begin_ns();
        if !self.alive {
            self.life_from_ns = from_ns;
        }
        self.alive = true;
        let left_out = self.end(from_ns);
        self.programs.push(program);
        left_out
    }

    /// Its program has ended, unless that is known. Whether a name was left out that way.
    pub(super) fn end(&mut self, at_ns: u64) -> bool {
        if let Some(program) = self.programs.last_mut() {
            program.end(at_ns);
        }
        self.next_name.take().is_some()
    }

    /// The present or last program.
    pub(super) fn now(&mut self) -> Option<&mut Program> {
        self.programs.last_mut()
    }

    /// How it is, or was at last.
    pub(super) fn present(&self) -> Option<Epoch<'_>> {
        let program = self.programs.last()?;
        Some(program.epoch(program.names.last()?))
    }

    /// How it was then, or as early as is known.
    pub(super) fn at(&self, time_ns: u64) -> Option<Epoch<'_>> {
        let programs = &self.programs;
        programs.iter().rev().find(|program| program.begin_ns() <= time_ns).or(programs.first())?.at(time_ns)
    }

    /// The last name that it had between two times.
    pub(super) fn last_name(&self, start_ns: u64, end_ns: Option<u64>) -> Option<&str> {
        let before_end = |from_ns: u64| end_ns.is_none_or(|end| from_ns < end);
        let its_own = |program: &&Program| {
            before_end(program.begin_ns()) && program.ended_ns.is_none_or(|ended| ended >= start_ns)
        };
        let program = self.programs.iter().rev().find(its_own)?;
        program.names.iter().rev().find(|name| before_end(name.from_ns)).map(|name| name.comm.as_str())
    }

    /// It calls itself otherwise. Samples have the name from `now_ns` on.
    pub(super) fn rename(&mut self, comm: &str, now_ns: u64) -> Renamed {
        let instead = self.next_name.take().is_some();
        let Some(name) = self.programs.last().and_then(|program| program.names.last()) else {
            return Renamed::Not { instead };
        };
        if name.comm == comm {
            return Renamed::Not { instead };
        }
        self.next_name = Some(comm.to_owned());
        if self.take_name(now_ns) { Renamed::Now } else { Renamed::Later { instead } }
    }

    /// Takes the name that waits, if it is time. Whether it did.
    pub(super) fn take_name(&mut self, now_ns: u64) -> bool {
        let Some(names) = self.programs.last_mut().map(|program| &mut program.names) else { return false };
        let renamed_ns = if names.len() > 1 { names.last().map(|name| name.from_ns) } else { None };
        if renamed_ns.is_some_and(|then| now_ns < then.saturating_add(RENAMED_EVERY_NS)) {
            return false;
        }
        let Some(comm) = self.next_name.take() else { return false };
        names.push(Name { from_ns: now_ns, comm });
        true
    }

    /// Whether a name waits.
    pub(super) fn has_next_name(&self) -> bool {
        self.next_name.is_some()
    }

    /// Forgets programs that ended before then, and names that were given up before then; all but the present ones.
    pub(super) fn forget_before(&mut self, then_ns: u64) {
        self.programs.retain(|program| !program.ended_before(then_ns));
        for program in &mut self.programs {
            let given_up = program.names.iter().skip(1).take_while(|next| next.from_ns < then_ns).count();
            program.names.drain(..given_up);
        }
    }

    /// Whether all of it ended before then.
    pub(super) fn ended_before(&self, then_ns: u64) -> bool {
        self.programs.iter().all(|program| program.ended_before(then_ns))
    }
}

impl Program {
    fn ended_before(&self, then_ns: u64) -> bool {
        self.ended_ns.is_some_and(|ended| ended < then_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn program(comm: &str, from_ns: u64) -> Program {
        let image = Image::new(1, 1, comm.to_owned(), None, Vec::new());
        Program::new(image, Life::met(1, 1), Arc::default(), from_ns)
    }

    fn comm_at(process: &Process, time_ns: u64) -> &str {
        process.at(time_ns).unwrap().comm
    }

    #[test]
    fn a_name_holds_from_the_change_on() {
        let mut process = Process::new(program("first", 10));
        assert_eq!(process.rename("second", 500 * MS), Renamed::Now);
        assert_eq!(process.rename("second", 510 * MS), Renamed::Not { instead: false });
        assert_eq!(
            [5, 10, 500 * MS - 1, 500 * MS].map(|time| comm_at(&process, time)),
            ["first", "first", "first", "second"]
        );
        assert!(Arc::ptr_eq(process.at(10).unwrap().life, process.at(u64::MAX).unwrap().life));
        let _ = process.begin(program("third", 700 * MS));
        assert_eq!([600 * MS, 700 * MS].map(|time| comm_at(&process, time)), ["second", "third"]);
        assert!(!Arc::ptr_eq(process.at(10).unwrap().life, process.at(u64::MAX).unwrap().life));
        assert!(
            process.at(10).unwrap().life.ended().is_some()
                && process.present().unwrap().life.ended().is_none()
        );
        assert_eq!(process.last_name(0, Some(700 * MS)), Some("second"));
        assert_eq!(process.last_name(0, Some(500 * MS)), Some("first"));
        assert_eq!(process.last_name(800 * MS, None), Some("third"));
        // A name of a new program is not one that it has given itself: it may take another one at once.
        assert_eq!(process.rename("fourth", 701 * MS), Renamed::Now);
    }

    #[test]
    fn a_process_that_renames_itself_a_million_times_takes_little_and_every_name_is_accounted_for() {
        let mut process = Process::new(program("begin", 0));
        let (mut taken, mut left_out, mut most) = (0, 0, 0);
        // 50 names each ms, a look at each 10th ms.
        for round in 1..=2_000_u64 {
            let now_ns = round * 10 * MS;
            taken += u64::from(process.take_name(now_ns));
            for number in 0..500 {
                match process.rename(&format!("n{round}-{number}"), now_ns) {
                    Renamed::Now => taken += 1,
                    Renamed::Later { instead } | Renamed::Not { instead } => left_out += u64::from(instead),
                }
            }
            if round % 500 == 0 {
                process.forget_before(now_ns.saturating_sub(5_000 * MS));
            }
            most = most.max(process.programs[0].names.len());
        }
        left_out += u64::from(process.end(21_000 * MS));
        assert_eq!(taken + left_out, 1_000_000);
        assert!((190..=201).contains(&taken), "{taken}");
        assert!(most <= 102, "{most}");
        assert_eq!(comm_at(&process, 20_000 * MS), "n1990-499");
    }

    #[test]
    fn the_last_of_many_names_comes_when_it_is_time() {
        let mut process = Process::new(program("begin", 0));
        assert_eq!(process.rename("one", MS), Renamed::Now);
        assert_eq!(process.rename("two", 2 * MS), Renamed::Later { instead: false });
        assert_eq!(process.rename("three", 3 * MS), Renamed::Later { instead: true });
        assert!(!process.take_name(50 * MS) && process.present().unwrap().comm == "one");
        assert!(process.take_name(101 * MS) && process.present().unwrap().comm == "three");
        assert!(!process.take_name(300 * MS));
        assert_eq!(process.rename("four", 150 * MS), Renamed::Later { instead: false });
        assert_eq!(process.rename("three", 151 * MS), Renamed::Not { instead: true });
        assert!(!process.take_name(300 * MS));
    }

    #[test]
    fn what_is_old_is_forgotten_and_what_holds_is_not() {
        let mut process = Process::new(program("one", 1));
        process.rename("two", 200 * MS);
        process.rename("three", 400 * MS);
        process.forget_before(300 * MS);
        assert_eq!([1, 300 * MS, 400 * MS].map(|time| comm_at(&process, time)), ["two", "two", "three"]);
        let _ = process.begin(program("next", 500 * MS));
        process.forget_before(600 * MS);
        assert_eq!(process.programs.len(), 1);
        assert!(!process.ended_before(600 * MS));
        let _ = process.end(700 * MS);
        assert!(process.ended_before(800 * MS) && !process.ended_before(700 * MS));
    }
}
