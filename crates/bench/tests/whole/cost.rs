//! What a sample costs.

use std::process::Command;
use std::thread;
use std::time::Duration;

use bench::cost::Bare;
use truth::compile::{Build, Compiler};
use truth::profiler::BpfStats;
use truth::programs::sources;
use truth::target::Target;

use crate::{may_profile, out};

fn recursing() -> Target {
    let flags = "-O2 -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer";
    let path = Build::new("recurse-fp", Compiler::Gcc, "recurse.c", flags).run(&sources(), &out()).unwrap();
    Target::start_command(Command::new(path).args(["30", "20000000"])).unwrap()
}

#[test]
fn the_bare_program_walks_a_frame_pointer_build() {
    if !may_profile() {
        return;
    }
    let target = recursing();
    let _stats = BpfStats::enable().unwrap();
    let bare = Bare::attach(&out(), target.pid(), 999).unwrap();
    thread::sleep(Duration::from_secs(1));
    let taken = bare.finish().unwrap();
    let per_sample = |sum: f64| sum / taken.samples as f64;
    let (ns, frames) = (per_sample(taken.run_ns as f64), per_sample(taken.frames));
    assert!(ns > 100.0 && ns < 1_000_000.0, "{ns} ns per sample");
    // The ring, spin, descend, main, and what libc shows of itself. The first samples may be of the start, with fewer.
    assert!((32.0..=37.0).contains(&frames), "{frames} frames");
}
