//! Profiles that sum up a value of each occurrence, with known answers: arguments and results of calls, and a field of a tracepoint.

use perfagent::{Mode, Report};

use super::{captured_of, folded, has_tracepoint, rooted};
use crate::started::is_refusal;

const SOURCE: &str = include_str!("sums.c");
const CALLS: u64 = 4000;

/// A capture of the whole work of the program; its report, and the sum that the program prints. `event`: of the path of the program.
fn captured(event: impl Fn(&str) -> String) -> Option<(Report, u64)> {
    captured_of(SOURCE, &[format!("-DCALLS={CALLS}")], |builder, path| {
        builder.event(&event(&path.display().to_string()))
    })
}

/// The sum of some value of the calls that are chosen.
fn sum(of: impl Fn(u64) -> u64, is_meant: impl Fn(u64) -> bool) -> u64 {
    (0..CALLS).filter(|call| is_meant(*call)).map(of).sum()
}

/// The numbers of samples, of those whose value could not be read, and of those whose value was negative.
fn counted(report: &Report) -> (u64, u64, u64) {
    let ledger = report.ledger(Mode::Event).unwrap();
    assert_eq!(ledger.lost(), 0);
    (ledger.samples, ledger.values_unreadable, ledger.values_negative)
}

/// Checks the sums of all calls, and of those from `one` and from `two`. The first stacks may have no names yet.
fn check(report: &Report, of: impl Fn(u64) -> u64 + Copy, is_meant: impl Fn(u64) -> bool + Copy) {
    let stacks = folded(report.recording());
    let all: u64 = stacks.iter().map(|(_, value)| value).sum();
    assert_eq!(all, sum(of, is_meant), "{stacks:?}");
    for (end, from_two) in [("one;work", false), ("two;work", true)] {
        let expected = sum(of, |call| is_meant(call) && call.is_multiple_of(4) == from_two);
        let found = rooted(&stacks, end);
        assert!(
            found <= expected && found >= expected * 99 / 100,
            "{end}: {found} of {expected}: {stacks:?}"
        );
    }
}

#[test]
fn an_argument_in_a_register_is_summed_to_the_unit_and_a_negative_one_is_told() {
    let event = |path: &str| format!("uprobe:{path}:work n=%di:s32 value=n:bytes");
    let Some((report, printed)) = captured(event) else { return };
    let is_positive = |call: u64| !call.is_multiple_of(10);
    assert_eq!(printed, sum(|call| call, is_positive), "the program agrees");
    check(&report, |call| call, is_positive);
    // The value of the first call is -0.
    assert_eq!(counted(&report), (CALLS, 0, CALLS / 10 - 1));
    let profile = report.cpu_profile().unwrap();
    let types: Vec<_> = profile.sample_types.iter().map(|of| (&*of.kind, &*of.unit)).collect();
    assert_eq!(types[0], ("samples", "count"));
    assert_eq!(types[2], ("n", "bytes"));
    let sums: Vec<i64> =
        (0..3).map(|at| profile.samples.iter().map(|sample| sample.values[at]).sum()).collect();
    assert_eq!(sums, [CALLS as i64, CALLS as i64, printed as i64]);
    let warned = report.warnings.iter().any(|warning| warning.message.contains("it was negative"));
    assert!(warned, "{:?}", report.warnings);
}

#[test]
fn a_value_behind_pointers_is_read_and_where_it_cannot_be_it_is_told() {
    let event = |path: &str| format!("uprobe:{path}:work value=+8(+8(%si)):u16");
    let Some((report, _)) = captured(event) else { return };
    let has_request = |call: u64| !call.is_multiple_of(8);
    check(&report, |call| call % 1000, has_request);
    assert_eq!(counted(&report), (CALLS, CALLS / 8, 0));
}

#[test]
fn bits_of_a_word_are_a_value() {
    let event = |path: &str| format!("uprobe:{path}:work value=+4(%si):b7@5/32");
    let Some((report, _)) = captured(event) else { return };
    check(&report, |call| call % 128, |call| !call.is_multiple_of(8));
}

#[test]
fn results_are_summed_with_the_stack_of_the_caller() {
    let event = |path: &str| format!("uretprobe:{path}:work result=$retval:s64 value=result");
    let Some((report, printed)) = captured(event) else { return };
    let stacks = folded(report.recording());
    assert_eq!(stacks.iter().map(|(_, value)| value).sum::<u64>(), printed, "{stacks:?}");
    assert_eq!(counted(&report), (CALLS, 0, 0));
}

#[test]
fn the_value_of_each_nth_call_stands_for_n() {
    let event = |path: &str| format!("uprobe:{path}:work n=%di:s32 value=n period=8");
    let Some((report, printed)) = captured(event) else { return };
    let found: u64 = folded(report.recording()).iter().map(|(_, value)| value).sum();
    // Each CPU counts by itself, and a thread may move.
    assert!(found.is_multiple_of(8) && found.abs_diff(printed) <= printed / 5, "{found} of {printed}");
}

#[test]
fn a_field_of_a_tracepoint_is_summed_to_the_byte_without_the_errors() {
    if !has_tracepoint("syscalls/sys_exit_read") {
        testkit::skip!("the kernel has no tracepoints of system calls here");
    }
    let Some((report, _)) = captured(|_| "syscalls:sys_exit_read value=ret:bytes".to_owned()) else { return };
    let stacks = folded(report.recording());
    let expected = sum(|call| call % 512, |call| !call.is_multiple_of(10));
    let found = rooted(&stacks, "in_kernel;");
    assert!(found <= expected && found >= expected * 99 / 100, "{found} of {expected}: {stacks:?}");
    let (_, unreadable, negative) = counted(&report);
    assert_eq!((unreadable, negative), (0, CALLS / 10));
}

#[test]
fn a_field_that_is_not_there_or_no_number_is_refused_with_those_that_are() {
    if !has_tracepoint("sched/sched_switch") {
        testkit::skip!("the kernel has no tracepoints of the scheduler here");
    }
    for (value, part) in [("prio", "prev_prio"), ("prev_comm", "no number"), ("common_pid", "own field")] {
        let event = format!("sched:sched_switch value={value}");
        let agent = perfagent::Agent::builder()
            .pid(std::process::id())
            .with_cpu_profile()
            .event(&event)
            .build()
            .unwrap();
        match agent.start().unwrap_err() {
            error if is_refusal(&error) => {}
            error => {
                assert!(matches!(error, perfagent::Error::InvalidConfig { .. }), "{error}");
                assert!(error.to_string().contains(part), "{error}");
            }
        }
    }
}
