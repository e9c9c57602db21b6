//! Time off the CPU, claim by claim.

use truth::blocking::{CASES, Lab};
use truth::programs::Scheduling;

use crate::Setup;

fn claim(setup: Option<Setup>, name: &str) {
    let Some(setup) = setup else { return };
    let lab = Lab {
        agent: setup.agent.clone(),
        programs: Scheduling::new(&setup.out),
        tolerance_pct: 1.0,
        per_block_ns: 3000,
        ms: 2000,
        crowd: 20_000,
    };
    let (_, case) = CASES.iter().find(|(case, _)| *case == name).unwrap();
    case(&lab).unwrap();
}

#[test]
fn time_and_blocks_of_each_function() {
    claim(Setup::alone(), "each function's time and blocks");
}

#[test]
fn preemption_is_not_blocking() {
    claim(Setup::alone(), "preemption is not blocking");
}

#[test]
fn threads_that_live_for_milliseconds() {
    claim(Setup::alone(), "threads that live for milliseconds");
}

#[test]
fn a_process_that_ends_while_blocked() {
    claim(Setup::alone(), "a process that ends while blocked");
}

#[test]
fn twenty_thousand_threads_asleep_since_before() {
    claim(Setup::beside_others(), "asleep since before the start");
}

#[test]
fn threads_asleep_since_before_and_woken_once() {
    claim(Setup::as_root(Setup::beside_others), "asleep since before the start, woken once");
}

#[test]
fn short_intervals_are_left_out_and_counted() {
    claim(Setup::as_root(Setup::alone), "short intervals left out");
}

#[test]
fn the_whole_machine_and_its_kernel_threads() {
    claim(Setup::beside_others(), "the whole machine");
}

#[test]
fn on_and_off_cpu_are_a_threads_life() {
    claim(Setup::alone(), "on-CPU and off-CPU together");
}

#[test]
fn all_time_of_threads_that_live_for_milliseconds() {
    claim(Setup::alone(), "all time of threads that live for milliseconds");
}

#[test]
fn all_time_of_processes_that_live_for_milliseconds() {
    claim(Setup::alone(), "all time of processes that live for milliseconds");
}

#[test]
fn all_time_of_threads_that_end_after_their_process() {
    claim(Setup::alone(), "all time of threads that end after their process");
}

#[test]
fn more_sleeping_threads_than_stacks() {
    claim(Setup::beside_others(), "more sleeping threads than --max-stacks");
}
