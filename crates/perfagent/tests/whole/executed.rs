//! The hook for programs that processes of the targets execute.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use perfagent::{Agent, Ended, ExecutedProgram};
use testkit::Process;

use crate::started::started;

#[test]
fn each_program_that_a_target_executes_is_told_in_order() {
    let begun = SystemTime::now();
    let told = Arc::new(Mutex::new(Vec::<ExecutedProgram>::new()));
    let theirs = Arc::clone(&told);
    let mut command = Command::new("sh");
    command.args(["-c", "/bin/true; exec sleep 0.2"]);
    let builder = Agent::builder().command(command).with_cpu_profile();
    let builder = builder.on_exec(|program| assert_ne!(program.comm, "true", "a panic of the test"));
    let agent = builder.on_exec(move |program| theirs.lock().unwrap().push(program.clone())).build().unwrap();
    if !started(&agent) {
        return;
    }
    let main = agent.child().unwrap().id();
    assert_eq!(agent.wait(Duration::from_secs(60)), Ended::TargetsExited);
    let report = agent.stop().unwrap();
    let told = std::mem::take(&mut *told.lock().unwrap());
    let (own, other): (Vec<_>, Vec<_>) = told.into_iter().partition(|program| program.pid == main);
    assert_eq!(own.iter().map(|program| program.comm.as_str()).collect::<Vec<_>>(), ["sh", "sleep"]);
    assert_eq!(other.iter().map(|program| program.comm.as_str()).collect::<Vec<_>>(), ["true"]);
    // It ran for long enough to be looked at.
    let exe = own[1].exe.as_ref().and_then(|exe| exe.file_name());
    assert!(
        exe.is_some_and(|name| ["sleep", "coreutils", "busybox"].map(AsRef::as_ref).contains(&name)),
        "{own:?}"
    );
    assert!(begun <= own[0].at && own[0].at <= other[0].at && other[0].at <= own[1].at, "{own:?} {other:?}");
    let panicked = report.warnings.iter().filter(|warning| {
        warning.message.starts_with("a hook for executed programs panicked for true (pid ")
    });
    assert_eq!(panicked.count(), 1, "{:?}", report.warnings);
}

#[test]
fn what_other_processes_execute_is_not_told() {
    let target = Process::asleep();
    let told = Arc::new(Mutex::new(Vec::<ExecutedProgram>::new()));
    let theirs = Arc::clone(&told);
    let builder = Agent::builder().pid(target.pid()).with_cpu_profile();
    let agent = builder.on_exec(move |program| theirs.lock().unwrap().push(program.clone())).build().unwrap();
    if !started(&agent) {
        return;
    }
    assert!(Command::new("true").status().unwrap().success());
    agent.wait(Duration::from_millis(100));
    drop(agent.stop().unwrap());
    assert_eq!(*told.lock().unwrap(), []);
}
