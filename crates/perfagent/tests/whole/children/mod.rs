//! Descendants of targets that live when the capture begins.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::{Command, Stdio};
use std::time::Duration;

use perfagent::{Agent, Ended, Mode};
use testkit::{Foreign, Process, children};

use crate::started::started;

const RELAY: &str = include_str!("relay.c");
const LENGTH: Duration = Duration::from_secs(1);

/// Samples of a capture of this process.
fn samples(pid: u32, no_children: bool) -> Option<u64> {
    let agent = Agent::builder().pid(pid).no_children(no_children).sample_rate(997).with_cpu_profile();
    let agent = agent.build().unwrap();
    if !started(&agent) {
        return None;
    }
    assert_eq!(agent.wait(LENGTH), Ended::Duration);
    Some(agent.stop().unwrap().ledger(Mode::OnCpu).unwrap().samples)
}

#[test]
fn no_child_that_is_made_while_descendants_are_read_is_missed() {
    let compiler = testkit::need!("cc");
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("relay.c"), folder.path().join("relay"));
    std::fs::write(&source, RELAY).unwrap();
    let compiled = Command::new(compiler).args(["-O1", "-o"]).arg(&program).arg(&source).status();
    assert!(compiled.unwrap().success());
    let mut first = Process::start(Command::new(program).stdout(Stdio::piped())).unwrap();
    first.first_line();
    let Some(alone) = samples(first.pid(), true) else { return };
    for _ in 0..4 {
        let all = samples(first.pid(), false).unwrap();
        assert!(all >= 5 && all > 2 * alone, "{all} samples of the relay, {alone} of the first process");
    }
}

#[test]
fn living_descendants_are_targets_unless_children_are_left_out() {
    let mut command = Command::new("sh");
    // A grandchild that computes; the first process sleeps.
    command.args(["-c", "sh -c 'while :; do :; done; exit' & echo begun; exec sleep 300"]);
    let mut target = Process::start(command.stdout(Stdio::piped())).unwrap();
    target.first_line();
    let _child = Foreign(children(target.pid())[0]);
    let Some(with) = samples(target.pid(), false) else { return };
    let without = samples(target.pid(), true).unwrap();
    let agent = Agent::builder().comm("sleep").pid(target.pid()).pmu().build().unwrap();
    agent.start().unwrap();
    let told = agent.targets();
    agent.close();
    assert!(with > 10 && without <= 2, "{with} samples with the child, {without} without");
    assert_eq!((told[0].pid, &*told[0].comm, told[0].descendants), (target.pid(), "sleep", 1));
    assert_eq!(told.iter().filter(|one| one.pid == target.pid()).count(), 1, "{told:?}");
}

#[test]
fn a_target_that_is_added_brings_its_living_descendants() {
    let mut command = Command::new("sh");
    command.args(["-c", "sh -c 'while :; do :; done; exit' & echo begun; exec sleep 300"]);
    let mut target = Process::start(command.stdout(Stdio::piped())).unwrap();
    target.first_line();
    let _child = Foreign(children(target.pid())[0]);
    let first = Process::asleep();
    let agent = Agent::builder().pid(first.pid()).sample_rate(997).with_cpu_profile().with_off_cpu_profile();
    let agent = agent.build().unwrap();
    if started(&agent) {
        agent.add_pid(target.pid()).unwrap();
        assert_eq!(agent.wait(LENGTH), Ended::Duration);
    }
    if let Ok(report) = agent.stop() {
        assert!(report.ledger(Mode::OnCpu).unwrap().samples > 10);
        assert!(report.ledger(Mode::OffCpu).unwrap().samples > 0);
    }
}
