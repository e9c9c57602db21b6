//! Functions that end by exceptions, by the cancellation of threads and by longjmp: the program runs as without perf-agent, and what is
//! recorded is what the program counts.

use std::process::Command;

use testkit::skipped;
use truth::frame::Capture;
use truth::programs::{Linked, Unwound};
use truth::session::{Finished, Session, Subject};

use crate::Setup;
use crate::heap::{of, printed, run};

/// The lines that the program prints alone, and what perf-agent with these options records of it. None: it cannot be built here.
fn beside_alone(
    setup: &Setup,
    program: Unwound,
    options: &[&str],
    rounds: &str,
) -> Option<(Vec<String>, Finished)> {
    if let Some(reason) = program.missing() {
        skipped(reason);
        return None;
    }
    let path = program.path(&setup.out).unwrap();
    let alone = Command::new(&path).arg(rounds).output().unwrap();
    assert!(alone.status.success(), "{program:?} alone: {alone:?}");
    let alone: Vec<String> = String::from_utf8(alone.stdout).unwrap().lines().map(str::to_owned).collect();
    let session = Session::start(&setup.agent, options, Subject::Command(&path, &[rounds])).unwrap();
    let finished = session.finish().unwrap_or_else(|error| panic!("{program:?} {options:?}: {error:#}"));
    assert_eq!(finished.lines, alone, "{program:?} {options:?}: {}", finished.messages);
    Some((alone, finished))
}

/// What an exact recording has of the program, which also runs as a command in both modes.
fn exact(program: Unwound, rounds: &str) -> Option<(Vec<String>, Capture, String)> {
    let setup = Setup::as_root(Setup::beside_others)?;
    for mode in ["--heap", "--heap=exact"] {
        beside_alone(&setup, program, &[mode], rounds)?;
    }
    let mut command = Command::new(program.path(&setup.out).unwrap());
    let (lines, finished) = run(&setup, command.args([rounds, "recorded"]), &["--heap=exact"]);
    let capture = finished.heap().unwrap();
    assert_eq!(capture.ledger("lost"), Some("0"), "{program:?}: {:?}", capture.comments);
    Some((lines, capture, finished.messages))
}

/// Checks what a program says of its functions.
fn check_sites(program: Unwound, rounds: &str) -> Option<Capture> {
    let (lines, capture, messages) = exact(program, rounds)?;
    let sites = printed(&lines);
    assert!(sites.len() >= 2, "{lines:?}");
    for (name, values) in &sites {
        let found = of(&capture, name);
        assert_eq!(found, *values, "{program:?} {name}: {:?}\n{messages}", capture.comments);
    }
    Some(capture)
}

#[test]
fn failed_allocations_are_caught_and_the_others_are_counted() {
    let both = Linked::ALL.map(Unwound::BadAlloc);
    for program in both.into_iter().chain([Unwound::BadAllocOfJemalloc]) {
        let Some((_, capture, messages)) = exact(program, "50") else { continue };
        // 40 objects in each of 50 rounds, of 100 to 119 bytes.
        assert_eq!(
            of(&capture, "keep"),
            [2000, 219_000, 2000, 219_000],
            "{program:?}: {:?}\n{messages}",
            capture.comments
        );
    }
}

#[test]
fn an_operator_new_that_throws_or_calls_malloc_is_left_alone() {
    for program in Linked::ALL.map(Unwound::ThrowingCaller) {
        let Some((_, capture, _)) = exact(program, "50") else { continue };
        // `keep` runs in `query` too, where the operator throws: then only the exception is allocated, and what the unwinder needs.
        let mut kept = capture.clone();
        kept.stacks
            .retain(|stack| !stack.has("__cxa_allocate_exception") && !stack.has("_Unwind_RaiseException"));
        assert_eq!(of(&kept, "keep"), [100, 15_000, 100, 15_000], "{program:?}: {:?}", capture.comments);
    }
}

#[test]
fn an_operator_new_that_throws_or_takes_memory_is_seen_where_it_returns() {
    for program in Linked::ALL.map(Unwound::ThrowingNew) {
        let Some(capture) = check_sites(program, "300") else { continue };
        assert_eq!(capture.ledger("heap.unreturned"), Some("600"), "{program:?}: {:?}", capture.comments);
    }
}

#[test]
fn threads_are_cancelled_in_a_malloc_and_it_jumps_out() {
    for program in Linked::ALL.map(Unwound::LeftMalloc) {
        check_sites(program, "20");
    }
}

#[test]
fn returns_of_a_function_that_throws_are_profiled_with_the_stack_of_the_caller() {
    let Some(setup) = Setup::as_root(Setup::beside_others) else { return };
    for program in Linked::ALL.map(Unwound::Thrower) {
        if program.missing().is_some() {
            continue;
        }
        let event = format!("uretprobe:{}:thrower", program.path(&setup.out).unwrap().display());
        let options = ["--profile", "--event", &event];
        let Some((_, finished)) = beside_alone(&setup, program, &options, "0") else { continue };
        let capture = finished.on_cpu().unwrap();
        let seen: i64 =
            capture.stacks.iter().filter(|stack| stack.has("main")).map(|stack| stack.values[0]).sum();
        assert_eq!(seen, 200, "{program:?}: {:?}", capture.comments);
        assert!(!capture.stacks.iter().any(|stack| stack.has("thrower")), "{program:?}");
    }
}
