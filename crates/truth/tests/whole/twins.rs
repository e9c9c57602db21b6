//! Two different files with one build-id.

use std::path::PathBuf;
use std::process::Command;

use truth::compile::{Build, Compiler};
use truth::programs::sources;
use truth::session::{Session, Subject};
use truth::target::Target;
use truth::verdict::is_early;

use crate::Setup;

const NAMES: [&str; 2] = ["twin_abel", "twin_cain"];

/// A program with the build-id of its twin. Both names have the same length, so the programs differ in nothing but that and
/// the size of one frame.
fn build(setup: &Setup, name: &str, room: u32) -> PathBuf {
    let id = "-Wl,--build-id=0x7477696e7477696e7477696e7477696e74776966";
    let flags = format!("-O2 -fomit-frame-pointer -DNAME={name} -DROOM={room} {id}");
    Build::new(name, Compiler::Gcc, "twin.c", &flags).run(&sources(), &setup.out).unwrap()
}

#[test]
fn a_claimed_build_id_takes_nothing_from_another_file() {
    let Some(setup) = Setup::beside_others() else { return };
    let [one, two] = [(NAMES[0], 1024), (NAMES[1], 4096)].map(|(name, room)| build(&setup, name, room));
    let [one, two] = [one, two].map(|path| Target::start_command(&mut Command::new(path)).unwrap());
    // The second time with what the first has left in the cache, and in the other order.
    for [first, second] in [[&one, &two], [&two, &one]] {
        let also = first.pid().to_string();
        let options = ["--profile", "--duration", "2s", "--sample-rate", "499", "--pid", &also];
        let session = Session::start(&setup.agent, &options, Subject::Process(second.pid())).unwrap();
        let capture = session.finish().unwrap().on_cpu().unwrap();
        for (target, name) in [(&one, NAMES[0]), (&two, NAMES[1])] {
            // How soon tables come is another question.
            let stacks =
                || capture.stacks.iter().filter(|stack| stack.pid == target.pid() && !is_early(stack));
            let all: u64 = stacks().map(|stack| stack.count).sum();
            let right = stacks().filter(|stack| {
                stack.truncated.is_none() && stack.has(name) && stack.has("main") && stack.has("spin")
            });
            let right: u64 = right.map(|stack| stack.count).sum();
            let texts: Vec<String> = stacks().map(|stack| stack.display()).collect();
            // Other work may take most of the CPU.
            assert!(all >= 20, "{name}: {all} samples");
            // A few may be in main itself.
            assert!(right * 100 >= all * 95, "{name}: {right} of {all}: {texts:#?}");
        }
    }
}
