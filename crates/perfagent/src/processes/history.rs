//! The history of one process: its programs one after the other, and the names under which each ran.

use std::sync::Arc;

use process::Image;
use profile::Label;

use super::exec_instance::ExecInstance;

/// Labels and executable memory of a process at one time.
#[derive(Clone, Copy)]
pub(crate) struct ProcessSnapshot<'a> {
    pub(crate) image: &'a Arc<Image>,
    pub(crate) instance: &'a Arc<ExecInstance>,
    /// The name of the process.
    pub(crate) comm: &'a str,
    /// The labels without number and name.
    pub(crate) labels: &'a [Label],
    /// When the program or its present name began.
    pub(crate) from_ns: u64,
    /// Executable memory and instance of the program that the process ran before, if that is known.
    pub(crate) before: Option<(&'a Arc<Image>, &'a Arc<ExecInstance>)>,
}

/// One program, from fork or exec to the next exec or the end.
pub(super) struct Program {
    pub(super) image: Arc<Image>,
    pub(super) instance: Arc<ExecInstance>,
    labels: Arc<Vec<Label>>,
    /// Oldest first, at least one.
    names: Vec<Name>,
    /// It was known at this time (CLOCK_MONOTONIC): by its record, or because it was read.
    known_ns: u64,
    /// When it began. The name that it began with may be forgotten.
    began_ns: u64,
    ended_ns: Option<u64>,
}

struct Name {
    from_ns: u64,
    comm: String,
}

/// A process, and the processes that had its number shortly before.
pub(super) struct Process {
    /// Oldest first, at least one.
    programs: Vec<Program>,
    pub(super) alive: bool,
    /// Begin of the life of the present or last process of this number.
    pub(super) life_from_ns: u64,
    /// It is no target; it has woken threads of targets.
    pub(super) waker_only: bool,
    /// It was counted as unreadable, in whole or in part.
    pub(super) unreadable: bool,
}

impl Program {
    /// A program that runs from `from_ns` on.
    pub(super) fn new(
        image: Image,
        instance: ExecInstance,
        labels: Arc<Vec<Label>>,
        from_ns: u64,
        known_ns: u64,
    ) -> Self {
        let names = vec![Name { from_ns, comm: image.comm.clone() }];
        Self {
            image: Arc::new(image),
            instance: Arc::new(instance),
            labels,
            names,
            known_ns,
            began_ns: from_ns,
            ended_ns: None,
        }
    }

    fn begin_ns(&self) -> u64 {
        self.names.first().map_or(0, |name| name.from_ns)
    }

    fn end(&mut self, at_ns: u64) {
        self.ended_ns.get_or_insert(at_ns);
        self.instance.end(at_ns);
    }

    fn snapshot<'a>(&'a self, name: &'a Name) -> ProcessSnapshot<'a> {
        let Self { image, instance, labels, .. } = self;
        ProcessSnapshot { image, instance, comm: &name.comm, labels, from_ns: name.from_ns, before: None }
    }

    fn at(&self, time_ns: u64) -> Option<ProcessSnapshot<'_>> {
        let name = self.names.iter().rev().find(|name| name.from_ns <= time_ns).or(self.names.first())?;
        Some(self.snapshot(name))
    }
}

impl Process {
    /// A process that begins with this program.
    pub(super) fn new(program: Program) -> Self {
        Self {
            alive: true,
            life_from_ns: program.begin_ns(),
            programs: vec![program],
            waker_only: false,
            unreadable: false,
        }
    }

    /// Another process has got the number, or this one has another program.
    pub(super) fn begin(&mut self, program: Program) {
        let from_ns = program.begin_ns();
        if !self.alive {
            self.life_from_ns = from_ns;
        }
        self.alive = true;
        self.end(from_ns);
        self.programs.push(program);
    }

    /// Its program has ended, unless that is known.
    pub(super) fn end(&mut self, at_ns: u64) {
        if let Some(program) = self.programs.last_mut() {
            program.end(at_ns);
        }
    }

    /// When its present or last program began.
    pub(super) fn begin_ns(&self) -> u64 {
        self.programs.last().map_or(0, |program| program.began_ns)
    }

    /// The time up to which that program and its names are known. A later exec id on the kernel side is an exec that was
    /// missed.
    pub(super) fn known_ns(&self) -> u64 {
        let Some(program) = self.programs.last() else { return 0 };
        program.names.last().map_or(0, |name| name.from_ns).max(program.known_ns)
    }

    /// The present or last program.
    pub(super) fn last_program(&mut self) -> Option<&mut Program> {
        self.programs.last_mut()
    }

    /// How it is, or was at last.
    pub(super) fn present(&self) -> Option<ProcessSnapshot<'_>> {
        let program = self.programs.last()?;
        Some(program.snapshot(program.names.last()?))
    }

    /// How it was then, or as early as is known.
    pub(super) fn at(&self, time_ns: u64) -> Option<ProcessSnapshot<'_>> {
        let programs = &self.programs;
        let index = programs.iter().rposition(|program| program.begin_ns() <= time_ns).unwrap_or(0);
        let before = index.checked_sub(1).and_then(|index| programs.get(index));
        // An earlier one may be of another process.
        let before = before.filter(|program| program.begin_ns() >= self.life_from_ns);
        let before = before.map(|program| (&program.image, &program.instance));
        Some(ProcessSnapshot { before, ..programs.get(index)?.at(time_ns)? })
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

    /// It has this name from `from_ns` on. Whether that is another one.
    pub(super) fn rename(&mut self, comm: &str, from_ns: u64) -> bool {
        let Some(program) = self.programs.last_mut() else { return false };
        let Some(last) = program.names.last().filter(|last| last.comm != comm) else { return false };
        let from_ns = from_ns.max(last.from_ns);
        program.names.push(Name { from_ns, comm: comm.to_owned() });
        true
    }

    /// Forgets programs that ended before then, and names that were replaced before then.
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
        Program::new(image, ExecInstance::met(1, 1), Arc::default(), from_ns, from_ns)
    }

    fn comm_at(process: &Process, time_ns: u64) -> &str {
        process.at(time_ns).unwrap().comm
    }

    #[test]
    fn a_name_holds_from_the_change_on() {
        let mut process = Process::new(program("first", 10));
        assert!(process.rename("second", 500 * MS));
        assert!(!process.rename("second", 510 * MS));
        assert_eq!(
            [5, 10, 500 * MS - 1, 500 * MS].map(|time| comm_at(&process, time)),
            ["first", "first", "first", "second"]
        );
        assert!(Arc::ptr_eq(process.at(10).unwrap().instance, process.at(u64::MAX).unwrap().instance));
        process.begin(program("third", 700 * MS));
        assert_eq!([600 * MS, 700 * MS].map(|time| comm_at(&process, time)), ["second", "third"]);
        assert!(!Arc::ptr_eq(process.at(10).unwrap().instance, process.at(u64::MAX).unwrap().instance));
        assert!(
            process.at(10).unwrap().instance.ended().is_some()
                && process.present().unwrap().instance.ended().is_none()
        );
        assert_eq!(process.last_name(0, Some(700 * MS)), Some("second"));
        assert_eq!(process.last_name(0, Some(500 * MS)), Some("first"));
        assert_eq!(process.last_name(800 * MS, None), Some("third"));
    }

    #[test]
    fn the_program_before_is_one_of_the_same_process() {
        let mut process = Process::new(program("forked", 10));
        process.begin(program("executed", 500));
        let before = |process: &Process, time_ns| {
            process.at(time_ns).unwrap().before.map(|(image, _)| image.comm.clone())
        };
        assert_eq!([10, 499, 500].map(|at| before(&process, at)), [None, None, Some("forked".to_owned())]);
        process.end(700);
        process.alive = false;
        process.begin(program("another", 800));
        assert_eq!(before(&process, 900), None);
    }

    #[test]
    fn what_is_old_is_forgotten_and_what_holds_is_not() {
        let mut process = Process::new(program("one", 1));
        process.rename("two", 200 * MS);
        process.rename("three", 400 * MS);
        process.forget_before(300 * MS);
        assert_eq!([1, 300 * MS, 400 * MS].map(|time| comm_at(&process, time)), ["two", "two", "three"]);
        process.begin(program("next", 500 * MS));
        process.forget_before(600 * MS);
        assert_eq!(process.programs.len(), 1);
        assert!(!process.ended_before(600 * MS));
        process.end(700 * MS);
        assert!(process.ended_before(800 * MS) && !process.ended_before(700 * MS));
    }
}
