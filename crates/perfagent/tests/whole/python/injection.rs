//! Trampolines that a capture switches on and off again.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use perfagent::{Agent, AgentBuilder, CancelToken, Error, Mode, PythonFrames};
use testkit::{
    Foreign, Lines, PerfMap, Process, Signal, children, send, supported_pythons, switchable_pythons,
};

use super::captured::{Captured, Line, alone, stacks};
use crate::started::{is_refusal, started};

/// Runs functions, and tells at SIGUSR1 whether the trampoline is on. The word `fork`: a child does the same; `forks`: children come and go.
const PROGRAM: &str = r#"
import contextlib, os, signal, sys, time
def told(*_):
    active = sys.is_stack_trampoline_active() if sys.version_info >= (3, 12) else False
    os.write(1, b"%d on\n" % os.getpid() if active else b"%d off\n" % os.getpid())
signal.signal(signal.SIGUSR1, told)
def leaf():
    for i in range(2000):
        pass
def caller():
    leaf()
def work(parent=None):
    while parent is None or os.getppid() == parent:
        caller()
def fork():
    while os.getppid() != 1 and not sys.is_stack_trampoline_active():
        time.sleep(0.001)
    if os.fork():
        signal.pause()
if "fork" in sys.argv:
    fork()
os.write(1, b"%d ready\n" % os.getpid())
children, parent = [], os.getpid()
while "forks" in sys.argv:
    child = os.fork()
    if not child:
        os.write(1, b"%d begun\n" % os.getpid())
        work(parent)
        os._exit(0)
    children.append(child)
    if len(children) > 4:
        ended = children.pop(0)
        os.kill(ended, signal.SIGKILL)
        os.waitpid(ended, 0)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"/tmp/perf-{ended}.map")
    time.sleep(0.005)
work()
"#;

struct Program {
    process: Process,
    output: Lines,
    _map: PerfMap,
}

impl Program {
    fn start(python: &Path, word: &str) -> Self {
        let mut command = Command::new(python);
        command.args(["-c", PROGRAM, word]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = Process::start(&mut command).unwrap();
        let output = Lines::of(process.stdout.take().unwrap());
        let map = PerfMap::of(process.pid());
        let program = Self { process, output, _map: map };
        assert_eq!(program.line(), (program.pid(), "ready".to_owned()));
        program
    }

    fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn line(&self) -> (u32, String) {
        line(&self.output)
    }

    fn is_on(&self) -> bool {
        is_on(self.pid(), &self.output)
    }
}

#[track_caller]
fn line(output: &Lines) -> (u32, String) {
    let line = output.next();
    let (pid, word) = line.split_once(' ').unwrap();
    (pid.parse().unwrap(), word.to_owned())
}

/// Whether the trampoline is on, as the program itself says.
#[track_caller]
fn is_on(pid: u32, output: &Lines) -> bool {
    send(pid, Signal::USR1);
    let is_answer = |(_, word): &(u32, String)| word != "begun";
    let (said, word) = std::iter::repeat_with(|| line(output)).find(is_answer).unwrap();
    assert_eq!(said, pid);
    word == "on"
}

fn of(builder: AgentBuilder) -> AgentBuilder {
    builder.sample_rate(499).inject_python(true).with_cpu_profile()
}

/// The counts of the ledger.
fn counts(ledger: &perfagent::Ledger) -> BTreeMap<String, String> {
    ledger.entries().into_iter().filter(|(key, _)| key.starts_with("inject.")).collect()
}

#[test]
fn functions_are_there_once_and_the_trampoline_is_off_afterwards() {
    for python in switchable_pythons() {
        let _alone = alone();
        let program = Program::start(&python.program, "");
        let agent = of(Agent::builder().pid(program.pid())).build().unwrap();
        if !started(&agent) {
            return;
        }
        assert!(program.is_on(), "{python}");
        testkit::until("a capture has enough stacks", || agent.ledger().samples >= 100);
        let report = agent.stop().unwrap();
        assert!(!program.is_on(), "{python}");
        let stats = agent.python_stats().unwrap();
        let text = "activated 1, already on 0, deactivated 1, skipped 0, failed 0";
        assert_eq!(stats.counts.to_string(), text, "{python}");
        assert_eq!(stats.maps, [(program.pid(), format!("/tmp/perf-{}.map", program.pid()).into())]);
        let told = counts(report.ledger(Mode::OnCpu).unwrap());
        assert_eq!((told["inject.activated"].as_str(), told["inject.deactivated"].as_str()), ("1", "1"));
        let is_leaf = |line: &&Line| line.name == "leaf" || line.name.starts_with("py::leaf");
        let (mut once, mut more) = (0, 0);
        for Captured { lines, count, .. } in &stacks(report.recording(), Mode::OnCpu).all {
            match lines.iter().filter(is_leaf).count() {
                0 => {}
                1 => once += count,
                _ => more += count,
            }
        }
        assert!(once > 50 && more == 0, "{python}: {once} once, {more} more often");
    }
}

#[test]
fn without_the_functions_the_trampolines_have_their_names() {
    for python in switchable_pythons() {
        let _alone = alone();
        let program = Program::start(&python.program, "");
        let agent = of(Agent::builder().pid(program.pid())).python(PythonFrames::Off).build().unwrap();
        if !started(&agent) {
            return;
        }
        testkit::until("a capture has enough stacks", || agent.ledger().samples >= 100);
        let report = agent.stop().unwrap();
        assert!(!program.is_on(), "{python}");
        let (mut named, mut all, mut interpreted) = (0, 0, 0);
        for stack in &stacks(report.recording(), Mode::OnCpu).all {
            all += stack.count;
            interpreted += stack.python().count();
            let has = |name: &str| stack.lines.iter().any(|line| line.name.starts_with(name));
            named += if has("py::leaf") && has("py::caller") { stack.count } else { 0 };
        }
        assert_eq!(interpreted, 0, "{python}");
        // In the others a call begins or ends, or `work` runs.
        assert!(2 * named > all, "{python}: {named} of {all}");
    }
}

/// Starts an agent that must not start, and gives the process and the token.
#[track_caller]
fn refused(pids: &[u32]) -> Option<(u32, &'static str)> {
    let agent = of(Agent::builder().pids(pids.iter().copied())).build().unwrap();
    match agent.start() {
        Err(error @ Error::Inject { .. }) => {
            assert!(error.hint().is_some(), "{error}");
            let Error::Inject { pid, token, .. } = error else { return None };
            assert!(error.to_string().starts_with(&format!("python: pid {pid}: {token}: ")), "{error}");
            Some((pid, token))
        }
        Err(error) if is_refusal(&error) => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_target_that_cannot_be_switched_ends_the_start_and_the_others_are_off() {
    let Some(&python) = switchable_pythons().first() else { return };
    let program = Program::start(&python.program, "");
    let other = Process::start(Command::new("sleep").arg("1000")).unwrap();
    let Some(not_python) = refused(&[program.pid(), other.pid()]) else { return };
    assert_eq!(not_python, (other.pid(), "not_python"));
    assert!(!program.is_on());
    assert_eq!(refused(&[std::process::id()]), Some((std::process::id(), "other")), "itself");
    for too_old in supported_pythons().into_iter().filter(|python| !python.is_at_least(12)) {
        let old = Program::start(&too_old.program, "");
        assert_eq!(refused(&[program.pid(), old.pid()]), Some((old.pid(), "python_too_old")), "{too_old}");
    }
    assert!(!program.is_on());
}

#[test]
fn a_start_that_is_cancelled_or_fails_leaves_the_trampoline_off() {
    let Some(&python) = switchable_pythons().first() else { return };
    let program = Program::start(&python.program, "");
    let agent = of(Agent::builder().pid(program.pid())).build().unwrap();
    let cancel = CancelToken::new();
    let result = std::thread::scope(|scope| {
        let starting = scope.spawn(|| agent.start_cancellable(&cancel));
        // At whatever point of the start.
        testkit::until("it is on, or the start is over", || program.is_on() || starting.is_finished());
        cancel.cancel();
        starting.join().unwrap()
    });
    match result {
        Ok(()) => drop(agent.stop()),
        Err(Error::Cancelled) => {}
        Err(error) if is_refusal(&error) => return,
        Err(error) => panic!("{error}"),
    }
    assert!(!program.is_on());
    // Dropped while it runs.
    let agent = of(Agent::builder().pid(program.pid())).build().unwrap();
    agent.start().unwrap();
    assert!(program.is_on());
    drop(agent);
    assert!(!program.is_on());
}

/// Adds a process that must not be added, and gives the token.
#[track_caller]
fn not_added(agent: &Agent, pid: u32) -> &'static str {
    match agent.add_pid(pid) {
        Err(Error::Inject { pid: of, token, .. }) if of == pid => token,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_process_that_is_added_is_switched_first_or_is_no_target() {
    for python in switchable_pythons() {
        let _alone = alone();
        let [first, second] = [(); 2].map(|()| Program::start(&python.program, ""));
        let agent = of(Agent::builder().pid(first.pid())).build().unwrap();
        if !started(&agent) {
            return;
        }
        let not_python = Process::computing();
        assert_eq!(not_added(&agent, not_python.pid()), "not_python", "{python}");
        assert_eq!(not_added(&agent, std::process::id()), "other", "itself");
        assert!(!second.is_on(), "{python}");
        agent.add_pid(second.pid()).unwrap();
        assert!(first.is_on() && second.is_on(), "{python}");
        // Its interpreter is found in the meantime, and once more it is a target already.
        testkit::until("a capture has enough stacks", || agent.ledger().samples >= 400);
        agent.add_pid(second.pid()).unwrap();
        let report = agent.stop().unwrap();
        assert!(!first.is_on() && !second.is_on(), "{python}");
        let counts = agent.python_stats().unwrap().counts.to_string();
        assert_eq!(
            counts, "activated 2, already on 0, deactivated 2, skipped 1 (not_python 1), failed 0",
            "{python}"
        );
        assert!(report.warnings.iter().all(|warning| !warning.message.starts_with("python:")), "{python}");
        let all = stacks(report.recording(), Mode::OnCpu).all;
        let has = |pid: u32| all.iter().any(|stack| stack.pid == pid);
        assert!(has(first.pid()) && has(second.pid()) && !has(not_python.pid()), "{python}");
    }
}

#[test]
fn a_command_and_its_forked_child_are_switched_when_they_run() {
    for python in switchable_pythons() {
        let _alone = alone();
        let mut command = Command::new(&python.program);
        command.args(["-c", PROGRAM, "fork"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let agent = of(Agent::builder().command(command)).build().unwrap();
        if !started(&agent) {
            return;
        }
        let child = agent.child().unwrap();
        let _child_map = PerfMap::of(child.id());
        let output = Lines::of(child.take_stdout().unwrap());
        // It forks when it is on.
        let (forked, word) = line(&output);
        let _map = PerfMap::of(forked);
        let _ends = Foreign(forked);
        assert_eq!(word, "ready");
        assert!(is_on(forked, &output), "{python}");
        let both = || agent.python_stats().is_some_and(|stats| stats.counts.activated >= 2);
        testkit::until("the child is known", both);
        agent.stop().unwrap();
        let stats = agent.python_stats().unwrap();
        assert!(stats.left_on.is_empty() && stats.counts.deactivated == 2, "{python}: {stats:?}");
        assert!(!is_on(forked, &output), "{python}");
        child.kill().unwrap();
    }
}

#[test]
fn children_that_are_forked_until_the_end_are_off_too() {
    for python in switchable_pythons() {
        let _alone = alone();
        let program = Program::start(&python.program, "forks");
        let agent = of(Agent::builder().pid(program.pid())).build().unwrap();
        if !started(&agent) {
            return;
        }
        testkit::until("a capture has enough stacks", || agent.ledger().samples >= 100);
        agent.stop().unwrap();
        // It forks no more, and its children stay.
        send(program.pid(), Signal::STOP);
        let state = |pid: u32| process::task::stat(pid).map_or('X', |stat| stat.state);
        testkit::until("it is stopped", || state(program.pid()) == 'T');
        let mut all = children(program.pid());
        let _maps: Vec<PerfMap> = all.iter().map(|pid| PerfMap::of(*pid)).collect();
        let _ends: Vec<Foreign> = all.iter().map(|pid| Foreign(*pid)).collect();
        // A fifth is about to be killed, or has been: the oldest.
        all.drain(..all.len().saturating_sub(4));
        // A child that is being forked forgets signals.
        let mut begun = Vec::new();
        while !all.iter().all(|pid| begun.contains(pid)) {
            begun.push(line(&program.output).0);
        }
        let on: Vec<u32> = all.iter().copied().filter(|pid| is_on(*pid, &program.output)).collect();
        let stats = agent.python_stats().unwrap();
        println!("{python}: {} of {} children are on; {}", on.len(), all.len(), stats.counts);
        assert!(on.is_empty() && all.len() >= 4, "{python}: {on:?} of {all:?}; {stats:?}");
    }
}
