//! Rooted and exact stacks, program by program.

use truth::check::{Outcome, check};
use truth::profiler::Profiler;
use truth::programs::{Program, all};
use truth::run::Plan;

use crate::Setup;

/// So often that there are many samples even where others take most of the CPU, if the kernel allows it.
fn rate_hz() -> u32 {
    let most = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate");
    most.ok().and_then(|most| most.trim().parse().ok()).map_or(999, |most: u32| most.min(4999))
}

fn check_those(setup: Option<Setup>, floor_pct: Option<f64>, wanted: impl Fn(&Program) -> bool) {
    check_with(setup, &[], floor_pct, wanted);
}

/// `more`: further arguments for perf-agent.
fn check_with(
    setup: Option<Setup>,
    more: &[&str],
    floor_pct: Option<f64>,
    wanted: impl Fn(&Program) -> bool,
) {
    let Some(setup) = setup else { return };
    let profiler = Profiler::Agent(setup.agent.clone(), more.iter().map(|&word| word.to_owned()).collect());
    // If that is too short for 1000 samples, it is repeated and takes longer.
    let plan = Plan { seconds: 1.0, rate_hz: rate_hz() };
    let mut complaints = Vec::new();
    let programs: Vec<_> = all().into_iter().filter(|p| !p.matrix_only && wanted(p)).collect();
    assert!(!programs.is_empty(), "there are programs");
    for program in programs {
        match check(&program, &setup.out, false, &profiler, plan, floor_pct) {
            Ok(Outcome::Passed(_)) => {}
            Ok(Outcome::Skipped(why)) => testkit::skipped(format_args!("{}: {why}", program.name)),
            Ok(Outcome::Failed(verdict, why)) => {
                let stacks: Vec<String> = verdict
                    .inexact
                    .iter()
                    .take(3)
                    .map(|(count, stack)| format!("    {count} x {stack}"))
                    .collect();
                complaints.push(format!("{}: {why}\n{}", program.name, stacks.join("\n")));
            }
            Err(error) => complaints.push(format!("{}: {error:#}", program.name)),
        }
    }
    assert!(complaints.is_empty(), "{} programs:\n{}", complaints.len(), complaints.join("\n"));
}

const LIFECYCLE: &[&str] = &["dlopen", "deleted", "exec-", "children", "namespaces", "threads-64"];

fn is_one_of(program: &Program, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|p| program.name.starts_with(p))
}

#[test]
fn deep_recursion() {
    check_those(Setup::beside_others(), None, |p| is_one_of(p, &["recurse-gcc", "recurse-clang"]));
}

#[test]
fn musl() {
    check_those(Setup::beside_others(), None, |p| p.name.contains("musl"));
}

#[test]
fn other_languages() {
    check_those(Setup::beside_others(), None, |p| is_one_of(p, &["cpp", "rust"]) || p.name == "go");
}

/// Before the table is ready, the stacks of Go that are on two stacks are cut.
#[test]
fn go_on_other_stacks() {
    check_with(Setup::beside_others(), &["--unwind", "dwarf"], None, |p| p.name.starts_with("go-"));
}

#[test]
fn code_that_comes_and_goes() {
    // Code that is mapped in mid-capture waits for its tables, on a busy machine for longer than stacks are sent for.
    check_those(Setup::as_root(Setup::beside_others), Some(99.0), |p| is_one_of(p, LIFECYCLE));
}

#[test]
fn odd_code_and_odd_frames() {
    check_those(Setup::beside_others(), None, |p| {
        !is_one_of(p, LIFECYCLE)
            && !is_one_of(p, &["recurse", "cpp", "rust", "go"])
            && !p.name.contains("musl")
    });
}
