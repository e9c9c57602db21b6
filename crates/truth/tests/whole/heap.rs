//! Allocations: objects and bytes, allocated and in use, as the program counts them itself.

use std::collections::BTreeMap;
use std::process::Command;

use truth::frame::Capture;
use truth::programs::Scheduling;
use truth::session::{Session, Subject};
use truth::target::Target;

use crate::Setup;

/// Objects, bytes, objects in use, bytes in use.
type Values = [i64; 4];

/// What the program has printed about its functions.
fn printed(lines: &[String]) -> BTreeMap<String, Values> {
    let site = |line: &String| {
        let mut words = line.strip_prefix("site ")?.split(' ');
        let name = words.next()?.to_owned();
        let values: Vec<i64> = words.map(|word| word.parse().unwrap()).collect();
        Some((name, values.try_into().unwrap()))
    };
    lines.iter().filter_map(site).collect()
}

/// What a profile has of all stacks through a function.
fn of(capture: &Capture, function: &str) -> Values {
    let mut sums = [0; 4];
    for stack in capture.stacks.iter().filter(|stack| stack.has(function)) {
        sums.iter_mut().zip(&stack.values).for_each(|(sum, value)| *sum += value);
    }
    sums
}

#[test]
fn exact_allocations_are_those_that_the_program_counts_itself() {
    let Some(setup) = Setup::as_root() else { return };
    let program = Scheduling::new(&setup.out).path("allocations").unwrap();
    let mut target = Target::start_command(Command::new(program).arg("2000")).unwrap();
    let options = ["--heap=exact", "--duration", "1h"];
    let mut session = Session::start(&setup.agent, &options, Subject::Process(target.pid())).unwrap();
    session.until_attached().unwrap();
    target.go().unwrap();
    let sites = printed(&target.lines_until("done").unwrap());
    session.stop().unwrap();
    let finished = session.finish().unwrap();
    let capture = finished.heap().unwrap();
    assert_eq!(sites.len(), 6, "{sites:?}");
    for (name, values) in &sites {
        assert!(values[0] >= 2000, "{name}");
        let stacks: Vec<_> =
            capture.stacks.iter().filter(|s| s.has(name)).map(|s| (s.display(), &s.values)).collect();
        assert_eq!(of(&capture, name), *values, "{name}: {stacks:#?}\n{:?}", capture.comments);
    }
    // The child's own object stays in use at its end; what it frees of its parent's stays in use in the parent.
    assert_eq!(of(&capture, "orphan"), [1, 777, 1, 777], "{:?}", capture.comments);
    assert_eq!(capture.ledger("lost"), Some("0"), "{:?}", capture.comments);
    let incomplete: Vec<_> = capture
        .stacks
        .iter()
        .filter(|s| !s.has("_start") && !s.has("clone3") && !s.has("__clone3"))
        .map(|s| s.display())
        .collect();
    assert_eq!(incomplete, [""; 0]);
}
