//! The measuring programs themselves.

use std::process::Command;
use std::thread;
use std::time::Duration;

use truth::compile::{Build, Compiler, find_command};
use truth::cost::{Bare, PerfOutput};
use truth::profiler::{BpfStats, PerfMode, Profiler, Scope};
use truth::programs::sources;
use truth::target::Target;

use crate::{Bench, ONE_AT_A_TIME, out};

fn can_measure(test: &str) -> bool {
    let missing = ["clang", "gcc"].into_iter().find(|c| find_command(c).is_none());
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: {test} because it needs root");
    } else if let Some(missing) = missing {
        eprintln!("skipped: {test} because {missing} is missing");
    } else {
        return true;
    }
    false
}

fn recursing() -> Target {
    let flags = "-O2 -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer";
    let path = Build::new("recurse-fp", Compiler::Gcc, "recurse.c", flags).run(&sources(), &out()).unwrap();
    Target::start_command(Command::new(path).args(["30", "20000000"])).unwrap()
}

#[test]
fn the_bare_program_walks_a_frame_pointer_build() {
    if !can_measure("the_bare_program_walks_a_frame_pointer_build") {
        return;
    }
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let target = recursing();
    let _stats = BpfStats::enable().unwrap();
    let bare = Bare::attach(&out(), target.pid(), 999).unwrap();
    thread::sleep(Duration::from_secs(1));
    let taken = bare.finish().unwrap();
    let per_sample = |sum: f64| sum / taken.samples as f64;
    let (ns, frames) = (per_sample(taken.run_ns as f64), per_sample(taken.frames));
    assert!(ns > 100.0 && ns < 1_000_000.0, "{ns} ns per sample");
    // The ring, spin, descend, main, and what libc shows of itself.
    assert!((33.0..=37.0).contains(&frames), "{frames} frames");
}

#[test]
fn a_record_of_perf_has_a_cost() {
    if !can_measure("a_record_of_perf_has_a_cost") {
        return;
    }
    if find_command("perf").is_none() {
        eprintln!("skipped: a_record_of_perf_has_a_cost because perf is missing (package linux-perf)");
        return;
    }
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let target = recursing();
    let output = match PerfOutput::attach(&out()) {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped: a_record_of_perf_has_a_cost because {error:#}");
            return;
        }
    };
    assert_eq!(output.ns_per_sample().unwrap(), None);
    let folder = tempfile::tempdir().unwrap();
    let perf = Profiler::Perf(PerfMode::Dwarf);
    perf.start(Scope::Process(target.pid()), 1.0, 199, folder.path()).unwrap().finish().unwrap();
    let ns = output.ns_per_sample().unwrap().unwrap();
    assert!(ns > 500.0 && ns < 10_000_000.0, "{ns} ns per sample");
}

#[test]
fn the_ledger_tells_the_time_in_the_kernel() {
    let Some(bench) = Bench::get("the_ledger_tells_the_time_in_the_kernel") else { return };
    let target = recursing();
    let _stats = BpfStats::enable().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let scope = Scope::Process(target.pid());
    let capture = bench.profiler().start(scope, 1.0, 999, folder.path()).unwrap().finish().unwrap();
    let told: f64 = capture.ledger("bpf_cpu_ms").unwrap().parse().unwrap();
    // What was seen from outside misses the last moments.
    let seen = capture.kernel_ns.unwrap() as f64 / 1e6;
    assert!(told > 0.0 && told + 0.1 >= seen && told < 3.0 * seen, "{told} ms, seen {seen} ms");
}
