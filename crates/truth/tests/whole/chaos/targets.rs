//! The changing targets, and the one right answer of each.

use std::path::{Path, PathBuf};
use std::process::Command;

use truth::compile::{Build, Compiler};
use truth::programs::sources;
use truth::target::Target;

use super::groups::Groups;
use super::random::Random;
use crate::Setup;

/// A round takes some 50 ms of CPU time.
const STEPS: &str = "40";
const COUNT: usize = 4;

/// One target, what each of its rounds must print, and the rounds that it printed.
struct Changing {
    seed: String,
    target: Target,
    answer: String,
    rounds: usize,
}

/// All targets.
pub(super) struct Targets {
    program: PathBuf,
    // Ends before the groups and the folder.
    all: Vec<Changing>,
    groups: Groups,
    folder: tempfile::TempDir,
}

impl Targets {
    /// Starts them and takes the answer of each before any agent begins.
    pub(super) fn start(setup: &Setup, random: &mut Random) -> Self {
        let flags = "-O2 -fomit-frame-pointer -pthread";
        let program =
            Build::new("chaos", Compiler::Gcc, "chaos.c", flags).run(&sources(), &setup.out).unwrap();
        let (folder, groups) = (tempfile::tempdir().unwrap(), Groups::new());
        let mut targets = Self { program, all: Vec::new(), groups, folder };
        for _ in 0..COUNT {
            let seed = random.one_of(1 << 30).to_string();
            let target = targets.start_one(&seed);
            targets.all.push(Changing { seed, target, answer: String::new(), rounds: 0 });
        }
        for changing in &mut targets.all {
            testkit::until("a target's first round", || {
                let lines = changing.target.pending_lines();
                lines.into_iter().next().is_some_and(|line| {
                    changing.answer = line;
                    true
                })
            });
            assert!(changing.answer.starts_with("sum "), "{}", changing.answer);
        }
        targets
    }

    fn start_one(&self, seed: &str) -> Target {
        let mut command = Command::new(&self.program);
        command.args([seed, STEPS]).arg(self.folder.path()).args(self.groups.files());
        Target::start_command(&mut command).unwrap()
    }

    /// Where their files are.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The numbers of one or two of them.
    pub(super) fn some(&self, random: &mut Random) -> Vec<u32> {
        let first = random.one_of(COUNT);
        let second = (first + random.one_of(COUNT)) % COUNT;
        let mut numbers = vec![self.all[first].target.pid()];
        if second != first {
            numbers.push(self.all[second].target.pid());
        }
        numbers
    }

    /// Kills one of them at any place of its work, and starts another with the same work. Returns the number of the killed process.
    pub(super) fn replace_one(&mut self, random: &mut Random) -> u32 {
        let index = random.one_of(COUNT);
        let target = self.start_one(&self.all[index].seed);
        let killed = std::mem::replace(&mut self.all[index].target, target);
        killed.pid()
    }

    /// Waits until each has done another round, and fails unless all rounds have the answer of an undisturbed one.
    pub(super) fn go_on_unchanged(&mut self, what: &str) {
        for changing in &mut self.all {
            let (mut before, mut more) = (true, 0);
            testkit::until(&format!("another round of a target after {what}"), || {
                let lines = changing.target.pending_lines();
                // Of what was printed until now, the last round may have begun beside the agent.
                more += if before { 0 } else { lines.len() };
                before = false;
                changing.rounds += lines.len();
                for line in lines {
                    assert_eq!(line, changing.answer, "{what}: round {}", changing.rounds);
                }
                more >= 1
            });
        }
    }
}
