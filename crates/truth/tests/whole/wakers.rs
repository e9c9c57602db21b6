//! Wakers: name, process and stack of the thread that ends each wait.

use std::process::Command;

use truth::frame::{Capture, Stack};
use truth::programs::Scheduling;
use truth::roots::Roots;
use truth::session::{Session, Subject};
use truth::target::Target;
use truth::verdict::is_early;

use crate::Setup;

/// The stack in two (names as `plain_name` spells them, without blanks): what was blocked, and what woke it; both root first.
fn parts(stack: &Stack) -> Option<(Vec<&str>, Vec<&str>)> {
    let names: Vec<_> = stack.frames.iter().map(|f| f.name.as_deref().unwrap_or("?")).collect();
    let at = names.iter().position(|name| *name == "[woken_by]")?;
    Some((names[..at].to_vec(), names[at + 1..].iter().rev().copied().collect()))
}

/// The share of the blocks in a function whose waker satisfies a condition.
#[track_caller]
fn expect(capture: &Capture, function: &str, wanted: impl Fn(&Stack, &[&str]) -> bool) {
    // How soon tables come is another question.
    let all = capture.sums(|s| s.has(function) && !is_early(s)).0;
    let as_wanted = capture.sums(|s| {
        s.has(function)
            && !is_early(s)
            && parts(s).is_some_and(|(blocked, waker)| blocked.contains(&function) && wanted(s, &waker))
    });
    // The first block of each began before the capture.
    let stacks: Vec<_> = capture.stacks.iter().filter(|s| s.has(function)).map(Stack::display).collect();
    assert!(all >= 100 && as_wanted.0 * 100 >= all * 95, "{as_wanted:?} of {all} in {function}: {stacks:#?}");
}

/// From the root on: the complete stack of the waker, its thread, its process.
fn is_thread(stack: &Stack, waker: &[&str], chain: [&str; 2], tail: [&str; 2]) -> bool {
    let at = waker.iter().position(|name| *name == chain[0]);
    let is_start = |name: &&str| ["_start", "clone3", "__clone3"].contains(name);
    Roots::default().is_rooted(stack)
        && waker.first().is_some_and(is_start)
        && at.is_some_and(|at| waker.get(at + 1) == Some(&chain[1]))
        && waker.ends_with(&tail)
}

#[test]
fn each_waker_has_its_names_and_its_complete_stack() {
    let Some(setup) = Setup::as_root(Setup::beside_others) else { return };
    let program = Scheduling::new(&setup.out).path("wakers").unwrap();
    let (_target, lines) = Target::start_after(&mut Command::new(program)).unwrap();
    let child = lines.iter().find_map(|line| line.strip_prefix("child ")?.parse().ok()).unwrap();
    let options = ["--offcpu", "--wakers", "--duration", "3s"];
    let session = Session::start(&setup.agent, &options, Subject::Process(child)).unwrap();
    let capture = session.finish().unwrap().off_cpu().unwrap();
    assert_eq!(capture.ledger("lost"), Some("0"), "{:?}", capture.comments);
    expect(&capture, "await_condition", |stack, waker| {
        is_thread(stack, waker, ["signaller", "give_condition"], ["thread_signaller", "process_wakers"])
    });
    // Of another process, which is no target.
    expect(&capture, "await_pipe", |stack, waker| {
        is_thread(stack, waker, ["writer", "give_pipe"], ["thread_writer", "process_wakers"])
    });
    expect(&capture, "await_timer", |_, waker| waker == ["[interrupt]"]);
    // The waker's stack is walked when it wakes a thread, but the waker's own waits are not samples.
    for stack in &capture.stacks {
        let blocked = parts(stack).map_or_else(
            || stack.frames.iter().filter_map(|f| f.name.as_deref()).collect(),
            |(blocked, _)| blocked,
        );
        assert!(!blocked.contains(&"writer"), "{}", stack.display());
    }
    assert_eq!(capture.ledger("processes"), Some("1"), "{:?}", capture.comments);
}
