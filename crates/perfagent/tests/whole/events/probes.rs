//! Profiles at probes with known answers: the number of calls of a function by its callers, in a process and in its children.

use perfagent::{Mode, Report};

use super::{captured_of, folded, rooted};

const SOURCE: &str = include_str!("calls.c");
const CALLS: u64 = 4000;
const CHILDREN: u64 = 3;
const ALL: u64 = CALLS * (CHILDREN + 1);

/// A capture of all calls at a probe: its kind, and what follows the function.
fn captured(kind: &str, function: &str) -> Option<Report> {
    let flags = [format!("-DCALLS={CALLS}"), format!("-DCHILDREN={CHILDREN}")];
    let mut path = String::new();
    let (report, _) = captured_of(SOURCE, &flags, |builder, program| {
        path = program.display().to_string();
        builder.event(&format!("{kind}:{path}:{function}"))
    })?;
    let defined = std::fs::read_to_string("/sys/kernel/tracing/uprobe_events").unwrap_or_default();
    assert!(!defined.contains(&path), "nothing is left behind: {defined}");
    Some(report)
}

#[test]
fn each_call_counts_once_with_its_whole_stack_also_in_children() {
    let Some(report) = captured("uprobe", "work") else { return };
    let stacks = folded(report.recording());
    let (one, two) = (rooted(&stacks, "calls;one;work"), rooted(&stacks, "calls;two;work"));
    let ledger = report.ledger(Mode::Event).unwrap();
    // The end of a child must not end the probe in the others.
    assert_eq!((ledger.samples, ledger.lost()), (ALL, 0), "{stacks:?}");
    assert!(one + two >= ALL * 99 / 100, "{stacks:?}");
    assert!(one.abs_diff(3 * two) <= ALL / 50, "{stacks:?}");
}

#[test]
fn each_return_counts_once_with_the_stack_of_the_caller() {
    let Some(report) = captured("uretprobe", "work") else { return };
    let stacks = folded(report.recording());
    let ledger = report.ledger(Mode::Event).unwrap();
    assert_eq!((ledger.samples, ledger.lost()), (ALL, 0), "{stacks:?}");
    let (one, two) = (rooted(&stacks, "calls;one"), rooted(&stacks, "calls;two"));
    assert!(one + two >= ALL * 99 / 100 && one.abs_diff(3 * two) <= ALL / 50, "{stacks:?}");
    assert!(!stacks.iter().any(|(stack, _)| stack.ends_with(";work")), "{stacks:?}");
}

#[test]
fn a_sample_of_each_nth_call_stands_for_n() {
    const N: u64 = 8;
    let Some(report) = captured("uprobe", "work period=8") else { return };
    let stacks = folded(report.recording());
    let found = rooted(&stacks, "calls;");
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    // Each CPU counts by itself, calls of the target only.
    assert!(
        found.is_multiple_of(N) && found <= ALL && found + N * cpus >= ALL * 99 / 100,
        "{found} of {ALL}: {stacks:?}"
    );
}
