//! Processes that end before their tables are in the kernel.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::Command;
use std::time::Duration;

use perfagent::{Agent, Ended, Mode};

use crate::started::started;

const BRIEF: &str = include_str!("brief.c");

/// Every stack is longer than what is sent of it from its stack pointer on.
#[test]
fn stacks_of_processes_of_some_milliseconds_are_complete_behind_a_large_frame_too() {
    let compiler = testkit::need!("cc");
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("brief.c"), folder.path().join("brief"));
    std::fs::write(&source, BRIEF).unwrap();
    let compiled = Command::new(compiler)
        .args(["-O1", "-pthread", "-fomit-frame-pointer", "-o"])
        .arg(&program)
        .arg(&source)
        .status();
    assert!(compiled.unwrap().success());
    let agent = Agent::builder().command(Command::new(&program)).sample_rate(997).with_cpu_profile();
    let agent = agent.table_cache_dir(folder.path().join("cache")).build().unwrap();
    if !started(&agent) {
        return;
    }
    assert_eq!(agent.wait(Duration::from_secs(120)), Ended::TargetsExited);
    let report = agent.stop().unwrap();
    let ledger = report.ledger(Mode::OnCpu).unwrap();
    let (all, rooted) = (ledger.walks.iter().sum::<u64>(), ledger.walks[0]);
    assert!(ledger.deferred > 40, "{} of {all} stacks were walked in user space", ledger.deferred);
    assert!(rooted * 100 >= all * 97, "{:?}", ledger.entries());
    assert_eq!((ledger.unsent_of_process, ledger.unsent_of_machine), (0, 0), "{:?}", ledger.entries());
}
