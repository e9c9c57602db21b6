//! Real interpreters, in each state in which a program may be.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use testkit::{ControlGroup, PerfMap, Process, Signal, send};

use super::*;
use crate::api::Texts;
use crate::place::with_held;
use crate::target::Target;

mod places;
mod refusals;
mod signals;

const PROGRAM: &str = r#"
import json, os, select, signal, sys, threading, time
def told(*_):
    active = sys.is_stack_trampoline_active() if hasattr(sys, "is_stack_trampoline_active") else False
    with open("question", "rb") as question: os.write(1, b"%s %s\n" % (question.read(), b"on" if active else b"off"))
signal.signal(signal.SIGUSR1, told)
def leaf(n): return n * n % 7
def compute():
    total = 0
    while True:
        for n in range(1000): total += leaf(n)
def c_code():
    numbers = list(range(20000, 0, -1))
    while True: json.dumps(sorted(numbers))
def sleeping(): time.sleep(100000)
mode = sys.argv[1]
reader, writer = os.pipe()
os.write(1, b"ready\n")
if mode == "compute": compute()
elif mode == "c": c_code()
elif mode == "sleep": sleeping()
elif mode == "select": select.select([reader], [], [])
elif mode == "read": os.read(reader, 1)
elif mode in ("join", "join-computing", "threads"):
    target = compute if mode == "join-computing" else sleeping
    threads = [threading.Thread(target=target, daemon=True) for _ in range(100 if mode == "threads" else 1)]
    for thread in threads: thread.start()
    compute() if mode == "threads" else threads[0].join()
"#;

/// The programs of interpreters that can be switched, the oldest first. Prints that the test is skipped if there is none.
fn switchable() -> Vec<PathBuf> {
    testkit::switchable_pythons().iter().map(|python| python.program.clone()).collect()
}

fn oldest() -> Option<PathBuf> {
    switchable().into_iter().next()
}

fn newest() -> Option<PathBuf> {
    switchable().pop()
}

/// A program that answers SIGUSR1 by a line with the number in the file `question`, and whether the trampoline is on.
struct Program {
    process: Process,
    /// Where it runs, with its output.
    folder: tempfile::TempDir,
    _map: PerfMap,
}

impl Program {
    fn start(interpreter: &PathBuf, options: &[&str], mode: &str) -> Self {
        Self::run(Command::new(interpreter).args(options).args(["-c", PROGRAM, mode]))
    }

    /// A program with a text of its own, which prints a line when it is ready.
    fn of_text(interpreter: &PathBuf, text: &str) -> Self {
        Self::run(Command::new(interpreter).args(["-c", text]))
    }

    fn run(command: &mut Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let output = fs::File::create(folder.path().join("output")).unwrap();
        command.stdin(Stdio::null()).stdout(output).current_dir(folder.path());
        let process = Process::start(command).unwrap();
        let map = PerfMap::of(process.pid());
        let program = Self { process, folder, _map: map };
        program.ask(0);
        testkit::until("it runs", || program.lines() >= 1);
        program
    }

    fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn text(&self) -> String {
        fs::read_to_string(self.folder.path().join("output")).unwrap()
    }

    fn lines(&self) -> usize {
        self.text().lines().count()
    }

    fn ask(&self, number: usize) {
        fs::write(self.folder.path().join("question"), number.to_string()).unwrap();
    }

    /// Whether the trampoline is on, as the program itself says.
    fn says(&self) -> bool {
        let number = self.lines();
        self.ask(number);
        let answer = || {
            let text = self.text();
            let is_answer = |line: &str| line.strip_prefix(&format!("{number} ")).map(|word| word == "on");
            text.ends_with('\n').then(|| text.lines().find_map(is_answer))?
        };
        // A signal just before the program begins to wait is answered after the wait, unless another one ends it.
        testkit::until("it answers", || {
            self.send_usr1();
            answer().is_some()
        });
        answer().unwrap()
    }

    fn send_usr1(&self) {
        send(self.pid(), Signal::USR1);
    }
}

#[test]
fn programs_in_each_state_are_switched_on_and_off() {
    let own = Mark::own().unwrap();
    let modes = ["compute", "join-computing", "select", "c", "sleep", "read", "join", "threads"];
    for (number, python) in switchable().iter().enumerate() {
        for mode in if number == 0 { &modes[..] } else { &modes[..3] } {
            let program = Program::start(python, &[], mode);
            let what = format!("{} {mode}", python.display());
            assert!(!program.says());
            assert_eq!(switch_on(program.pid(), &own), Ok(On::Activated), "{what}");
            assert!(program.says(), "{what}");
            assert_eq!(switch_on(program.pid(), &own), Ok(On::Activated), "{what}: it is ours");
            assert_eq!(switch_off(program.pid(), &own), Ok(Off::Deactivated), "{what}");
            assert!(!program.says(), "{what}");
            assert_eq!(switch_off(program.pid(), &own), Ok(Off::NotOurs), "{what}");
        }
    }
}

#[test]
fn what_others_have_switched_on_stays_on_while_they_live() {
    let Some(python) = oldest() else { return };
    let own = Mark::own().unwrap();
    let program = Program::start(&python, &["-X", "perf"], "sleep");
    assert_eq!(switch_on(program.pid(), &own), Ok(On::AlreadyOn));
    assert_eq!(switch_off(program.pid(), &own), Ok(Off::NotOurs));
    assert!(program.says());

    let mut other = Process::start(Command::new("sleep").arg("1000")).unwrap();
    let theirs = Mark::of(other.pid()).unwrap();
    let program = Program::start(&python, &[], "compute");
    assert_eq!(switch_on(program.pid(), &theirs), Ok(On::Activated));
    assert_eq!(switch_on(program.pid(), &own), Ok(On::AlreadyOn));
    assert_eq!(switch_off(program.pid(), &own), Ok(Off::NotOurs));
    assert!(program.says());
    other.kill().unwrap();
    testkit::until("it has ended", || other.try_wait().unwrap().is_some());
    assert_eq!(switch_on(program.pid(), &own), Ok(On::Adopted));
    assert_eq!(switch_off(program.pid(), &own), Ok(Off::Deactivated));
    assert!(!program.says());
}

#[test]
fn other_programs_are_refused_and_go_on() {
    let own = Mark::own().unwrap();
    let token = |pid| switch_on(pid, &own).unwrap_err().token;
    let other = Process::start(Command::new("sleep").arg("1000")).unwrap();
    assert_eq!(token(other.pid()), Token::NotPython);
    assert_eq!(token(std::process::id()), Token::NotPython);
    assert_eq!(token(u32::MAX), Token::Exited);
    for python in testkit::supported_pythons().iter().filter(|python| !python.is_at_least(12)) {
        let program = Program::start(&python.program, &[], "sleep");
        let refusal = switch_on(program.pid(), &own).unwrap_err();
        assert_eq!(refusal.token, Token::PythonTooOld, "{refusal}");
        assert!(refusal.to_string().starts_with("python_too_old: CPython 3."), "{refusal}");
        assert!(!program.says());
    }
}

#[test]
fn many_cycles_leave_the_program_as_it_was() {
    let Some(python) = newest() else { return };
    let own = Mark::own().unwrap();
    let program = Program::start(&python, &[], "compute");
    for cycle in 0..25 {
        assert_eq!(switch_on(program.pid(), &own), Ok(On::Activated), "{cycle}");
        assert_eq!(switch_off(program.pid(), &own), Ok(Off::Deactivated), "{cycle}");
    }
    assert!(!program.says());
}

#[test]
fn the_lock_is_given_back_if_we_die() {
    let Some(python) = oldest() else { return };
    for mode in ["compute", "join-computing", "sleep"] {
        let program = Program::start(&python, &[], mode);
        let own = Mark::own().unwrap();
        let target = Target::find(program.pid()).unwrap();
        // As for a process that is killed, the kernel detaches when the thread ends.
        with_held(&target, &Texts::new(""), std::mem::forget).unwrap();
        // A signal that comes before the thread has found its way back does not end a wait. One that comes later does.
        let before = program.lines();
        testkit::until("the program runs", || {
            program.send_usr1();
            std::thread::sleep(std::time::Duration::from_millis(20));
            program.lines() > before
        });
        testkit::until("it can be switched", || switch_on(program.pid(), &own) == Ok(On::Activated));
        assert_eq!(switch_off(program.pid(), &own), Ok(Off::Deactivated));
    }
}

#[test]
fn whatever_was_switched_on_is_switched_off_at_the_end() {
    let Some(python) = oldest() else { return };
    let programs = ["compute", "sleep", "join"].map(|mode| Program::start(&python, &[], mode));
    let left_alone = Program::start(&python, &["-X", "perf"], "sleep");
    let other = Process::start(Command::new("sleep").arg("1000")).unwrap();
    let pids: Vec<u32> =
        programs.iter().map(Program::pid).chain([left_alone.pid(), other.pid(), u32::MAX]).collect();
    let injection = Injection::new().unwrap();
    let mut skipped = injection.add_all(&pids, || false);
    skipped.sort_by_key(|(pid, _)| *pid);
    let tokens: Vec<Token> = skipped.iter().map(|(_, refusal)| refusal.token).collect();
    assert_eq!(tokens, [Token::NotPython, Token::Exited]);
    assert!(programs.iter().all(Program::says));
    let counts = injection.finish();
    let text = "activated 3, already on 1, deactivated 3, skipped 2 (not_python 1, exited 1), failed 0";
    assert_eq!(counts.to_string(), text);
    assert!(!programs.iter().any(Program::says) && left_alone.says());
    // Dropped without a word: an error, or a panic.
    let injection = Injection::new().unwrap();
    injection.add(programs[0].pid()).unwrap();
    drop(injection);
    assert!(!programs[0].says());
    assert!(injection_is_over(&programs[0]));
}

/// Nothing is switched when it is over before it begins.
fn injection_is_over(program: &Program) -> bool {
    let injection = Injection::new().unwrap();
    injection.add_all(&[program.pid()], || true).is_empty() && !program.says()
}
