//! Programs in Python: the functions of the program stand in the places of the interpreter's frames, with file and line.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod apache;
mod captured;
mod fake;
mod injection;
mod trampolines;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use perfagent::{Mode, PythonFrames};
use testkit::{Python, pythons_with_trampolines, supported_pythons};

use self::captured::{Captured, Line, PROGRAM, capture, capture_asleep, capture_running, profile};

/// Part of a whole.
fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// A function and the mark of the line in it.
type Call = (&'static str, &'static str);

/// The chains of functions that the program has, outermost first.
fn chains() -> Vec<Vec<Call>> {
    let each = |mark, rest: &[Call]| {
        let mut chain = vec![("<module>", "module"), ("main", "main-each"), ("each", mark)];
        chain.extend(rest);
        chain
    };
    let mut descend = vec![("descend", "descend"); 25];
    descend.extend([("descend", "bottom"), ("spin", "spin")]);
    vec![
        each("each-descend", &descend),
        each("each-consume", &[("consume", "consume"), ("numbers", "numbers"), ("spin", "spin")]),
        each("each-order", &[("order", "order"), ("key", "key"), ("spin", "spin")]),
        each("each-measure", &[("measure", "measure"), ("Shape.area", "area"), ("spin", "spin")]),
    ]
}

/// The mark of a line of the program.
fn mark(line: &Line) -> &'static str {
    let text = PROGRAM.lines().nth(line.line.saturating_sub(1) as usize).unwrap_or_default();
    text.split_once("  # ").map_or("", |(_, mark)| mark)
}

/// Whether a stack shows one of the chains. If a call begins or ends just then, it is shorter; what its innermost function runs is any line.
fn is_right(stack: &Captured, chains: &[Vec<Call>], python: &Python) -> bool {
    let found: Vec<&Line> = stack.python().collect();
    // Before 3.11 code objects have no qualified names.
    let named =
        |name: &'static str| if python.is_at_least(11) { name } else { name.trim_start_matches("Shape.") };
    let Some((innermost, callers)) = found.split_last() else { return false };
    chains.iter().any(|chain| {
        let same = |(line, (name, at)): (&&Line, &Call)| line.name == named(name) && mark(line) == *at;
        let last = chain.get(callers.len()).is_some_and(|(name, _)| innermost.name == named(name));
        last && callers.iter().zip(chain).all(same)
    })
}

#[test]
fn functions_stand_in_the_places_of_the_evaluator_with_their_lines() {
    let chains = chains();
    for python in supported_pythons() {
        let Some(stacks) = capture_running(Command::new(&python.program), "each", 0, PythonFrames::Auto)
        else {
            return;
        };
        let runs = |stack: &&Captured| stack.python().any(|line| line.name == "each");
        let all: u64 = stacks.all.iter().filter(runs).map(|stack| stack.count).sum();
        let outside: u64 = stacks.all.iter().filter(|stack| !runs(stack)).map(|stack| stack.count).sum();
        let (wrong, right): (Vec<_>, Vec<_>) =
            stacks.all.iter().filter(runs).partition(|stack| !is_right(stack, &chains, python));
        let wrong_count: u64 = wrong.iter().map(|stack| stack.count).sum();
        let halves: u64 = right.iter().filter(|stack| stack.has_evaluator()).map(|stack| stack.count).sum();
        let ledger = &stacks.ledger;
        println!(
            "{python}: {wrong_count} of {all} wrong, {halves} with an evaluator, {outside} others; {ledger:?}"
        );
        assert!(all > 50, "{python}: {all} stacks and {outside} others; {ledger:?}");
        assert!(percent(wrong_count, all) < 1.0, "{python}: {wrong_count} of {all}: {wrong:#?}");
        // The evaluator of a call that begins or ends just then is shown.
        assert!(percent(halves, all) < 10.0, "{python}: {halves} of {all}");
        // The interpreter is known before the first sample, unless a busy machine takes longer for it than the start waits.
        assert!(percent(outside, all) < 20.0, "{python}: {outside} beside {all}");
        let marks: BTreeSet<_> = right.iter().flat_map(|stack| stack.python()).map(mark).collect();
        for of_each in ["each-descend", "each-consume", "each-order", "each-measure", "bottom", "key", "area"]
        {
            assert!(marks.contains(of_each), "{python}: {of_each} is not in {marks:?}");
        }
        are_native_frames_kept(&right, python);
    }
}

/// `sorted` stands between its caller and the key function, and the startup code outside of all functions.
fn are_native_frames_kept(stacks: &[&Captured], python: &Python) {
    let mut found = 0;
    for Captured { lines, .. } in stacks {
        let at = |name: &str| lines.iter().position(|line| line.is_python && line.name == name);
        let (Some(key), Some(order)) = (at("key"), at("order")) else { continue };
        found += 1;
        assert!(lines[key..order].iter().any(|line| !line.is_python), "{python}: {lines:#?}");
        assert!(lines.last().is_some_and(|line| !line.is_python), "{python}: {lines:#?}");
    }
    assert!(found > 0, "{python}");
}

#[test]
fn all_keeps_the_evaluator_and_off_shows_it_alone() {
    // Where opcodes are functions, as in Debian's builds from 3.14 on, their frames are not named by the evaluator.
    let python = supported_pythons().into_iter().rfind(|python| !python.is_at_least(14));
    let Some(python) = python else {
        testkit::skip!("no CPython from 3.8 to 3.13; tools/pythons.sh brings some")
    };
    let Some(all) = capture_running(Command::new(&python.program), "each", 0, PythonFrames::All) else {
        return;
    };
    // A stack whose native walk was cut may have functions beyond it.
    let with_python = || all.all.iter().filter(|stack| stack.python().next().is_some());
    let both: u64 = with_python().filter(|stack| stack.has_evaluator()).map(|stack| stack.count).sum();
    let walked: u64 = with_python().map(|stack| stack.count).sum();
    assert!(walked > 0 && percent(both, walked) > 95.0, "{python}: {both} of {walked}; {:?}", all.ledger);
    let Some(off) = capture(Command::new(&python.program), "each", PythonFrames::Off) else { return };
    assert!(off.all.iter().all(|stack| stack.python().next().is_none()), "{python}");
    assert!(off.all.iter().any(Captured::has_evaluator), "{python}");
    assert_eq!(off.ledger, []);
}

#[test]
fn threads_and_forked_children_are_walked_too() {
    for python in supported_pythons() {
        for (what, expected) in [("threads", 4), ("fork", 3)] {
            let Some(stacks) = capture(Command::new(&python.program), what, PythonFrames::Auto) else {
                return;
            };
            let (mut wrong, mut all) = (0, 0);
            let mut tasks: BTreeMap<(u32, u32), u64> = BTreeMap::new();
            for stack in &stacks.all {
                let names: Vec<&str> = stack.python().map(|line| line.name.as_str()).collect();
                let Some(work) = names.iter().position(|name| *name == "work") else { continue };
                all += stack.count;
                let whole = ["work", "descend", "descend", "descend", "descend", "spin"];
                if !whole.starts_with(&names[work..]) {
                    wrong += stack.count;
                }
                *tasks.entry((stack.pid, stack.tid)).or_default() += stack.count;
            }
            println!("{python} {what}: {wrong} of {all} wrong, by task {tasks:?}; {:?}", stacks.ledger);
            assert!(percent(wrong, all) < 1.0, "{python} {what}: {wrong} of {all}");
            assert_eq!(tasks.len(), expected, "{python} {what}: {tasks:?}");
        }
    }
}

/// Children have the code objects of their parent at the same addresses, and a capture meets all its targets at one time.
#[test]
fn targets_that_are_children_of_each_other_have_all_names() {
    for python in supported_pythons() {
        let running = capture_running(Command::new(&python.program), "fork", 2, PythonFrames::Auto);
        let Some(stacks) = running else { return };
        let mut named: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
        for stack in stacks.all.iter().filter(|stack| stack.python().next().is_some()) {
            let whole = ["work", "descend", "descend", "descend", "descend", "spin"];
            let names: Vec<&str> = stack.python().map(|line| line.name.as_str()).collect();
            let work = names.iter().position(|name| *name == "work");
            let is_named = work.is_some_and(|work| whole.starts_with(&names[work..]));
            named.entry(stack.pid).or_default()[usize::from(is_named)] += stack.count;
        }
        println!("{python}: {named:?}; {:?}", stacks.ledger);
        assert_eq!(named.len(), 3, "{python}: {named:?}");
        for (pid, [unnamed, named]) in named {
            assert!(percent(unnamed, unnamed + named) < 1.0, "{python} {pid}: {unnamed} beside {named}");
        }
    }
}

#[test]
fn with_the_trampolines_of_the_interpreter_each_function_is_there_once() {
    for python in pythons_with_trampolines() {
        let mut command = Command::new(&python.program);
        command.args(["-X", "perf"]);
        let Some(stacks) = capture(command, "each", PythonFrames::Auto) else { return };
        let is_main = |stack: &&Captured| stack.python().any(|line| line.name == "main");
        let mut found = stacks.all.iter().filter(is_main).peekable();
        assert!(found.peek().is_some(), "{python}: {:?}", stacks.ledger);
        for Captured { lines, .. } in found {
            let mains = lines.iter().filter(|line| line.name == "main" || line.name.ends_with("::main"));
            // The C function of this name is outermost but for the startup code.
            let python = mains.filter(|line| line.is_python || line.name != "main").count();
            assert_eq!(python, 1, "{python}: {lines:#?}");
        }
    }
}

#[test]
fn waits_have_functions_too() {
    let Some(python) = supported_pythons().pop() else { return };
    let mut command = Command::new(&python.program);
    command.args(["-c", "import time\ndef nap():\n    while True:\n        time.sleep(0.01)\nnap()\n"]);
    let Some(waits) = profile(command, PythonFrames::Auto, Mode::OffCpu) else { return };
    let is_nap = |stack: &&Captured| {
        let lines: Vec<(&str, u32)> = stack.python().map(|line| (line.name.as_str(), line.line)).collect();
        lines == [("<module>", 5), ("nap", 4)]
    };
    let naps: u64 = waits.all.iter().filter(is_nap).map(|stack| stack.count).sum();
    // While the interpreter starts there are other waits.
    let begun = |stack: &&Captured| stack.python().any(|line| line.name == "nap");
    let all: u64 = waits.all.iter().filter(begun).map(|stack| stack.count).sum();
    assert!(all > 20 && percent(naps, all) > 95.0, "{python}: {naps} of {all}; {:?}", waits.ledger);
}

/// The program sleeps in `nap` when the capture begins.
fn is_asleep_in_nap(python: &Python, with_others: bool) {
    let mut command = Command::new(&python.program);
    let program = "import time\ndef nap():\n    print('ready', flush=True)\n    time.sleep(1000)\nnap()\n";
    command.args(["-c", program]);
    // `clock_nanosleep`, and `select` or `pselect6` with which older versions sleep.
    let sleeps = |pid: u32| {
        let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        ["230 ", "23 ", "270 "].iter().any(|number| call.starts_with(number))
    };
    let Some(waits) = capture_asleep(command, with_others, sleeps) else { return };
    let [stack] = &waits.all[..] else { panic!("{python}: {:#?}", waits.all) };
    let lines: Vec<(&str, u32)> = stack.python().map(|line| (line.name.as_str(), line.line)).collect();
    assert_eq!(lines, [("<module>", 5), ("nap", 4)], "{python}: {stack:#?}");
    assert!(!stack.has_evaluator(), "{python}: {stack:#?}");
}

#[test]
fn threads_that_sleep_since_before_the_capture_have_functions_too() {
    for python in supported_pythons() {
        is_asleep_in_nap(python, false);
    }
}

#[test]
fn so_they_have_with_the_whole_system_as_target() {
    let Some(python) = supported_pythons().pop() else { return };
    is_asleep_in_nap(python, true);
}

const OBJECTS: &str = "
def spin():
    for i in range(2000):
        pass
class Thing:
    def __init__(self):
        spin()
def make():
    while True:
        Thing()
make()
";

#[test]
fn what_the_interpreter_runs_behind_a_constructor_is_no_function() {
    for python in supported_pythons().into_iter().filter(|python| python.is_at_least(12)) {
        let mut command = Command::new(&python.program);
        command.args(["-c", OBJECTS]);
        let Some(stacks) = profile(command, PythonFrames::Auto, Mode::OnCpu) else { return };
        let (mut all, mut wrong) = (0, 0);
        for stack in &stacks.all {
            let names: Vec<&str> = stack.python().map(|line| line.name.as_str()).collect();
            all += if names.contains(&"make") { stack.count } else { 0 };
            // That of the class has the name of the class.
            wrong += if names.contains(&"__init__") { stack.count } else { 0 };
        }
        assert!(all > 20, "{python}: {all}; {:?}", stacks.ledger);
        assert_eq!(wrong, 0, "{python}: of {all}");
    }
}

const INTERPRETERS: &str = "
import threading
try:
    import _interpreters
    run = _interpreters.exec
except ImportError:
    import _xxsubinterpreters as _interpreters
    run = _interpreters.run_string
def outer():
    run(_interpreters.create(), '''
def inner():
    while True:
        for i in range(2000):
            sorted([2, 1], key=key)
def key(item):
    return item
inner()
''')
import time
time.sleep(0.5)
threading.Thread(target=outer).start()
";

/// The functions of the inner interpreter stand in the places of its own evaluators, not in those of the outer one.
#[test]
fn an_interpreter_that_is_made_later_is_inside_of_the_one_that_calls_it() {
    for python in supported_pythons().into_iter().filter(|python| python.is_at_least(11)) {
        let mut command = Command::new(&python.program);
        command.args(["-c", INTERPRETERS]);
        let Some(stacks) = profile(command, PythonFrames::Auto, Mode::OnCpu) else { return };
        let (mut all, mut wrong) = (0, 0);
        for Captured { lines, count, .. } in &stacks.all {
            let at = |name: &str| lines.iter().position(|line| line.name == name);
            let Some(inner) = at("inner") else { continue };
            all += count;
            // Those outside stay; one inside has lost its place to one of these, or is a call that begins or ends just then.
            let is_evaluator = |line: &Line| line.name.contains("_PyEval_EvalFrameDefault");
            wrong += if lines[..inner].iter().any(is_evaluator) { *count } else { 0 };
        }
        println!("{python}: {wrong} of {all}; {:?}", stacks.ledger);
        assert!(all > 20, "{python}: {all}; {:?}", stacks.ledger);
        assert!(percent(wrong, all) < 50.0, "{python}: {wrong} of {all}");
    }
}
