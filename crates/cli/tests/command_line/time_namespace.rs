//! perf-agent in a time namespace, whose offset shifts its clocks and not those of the kernel.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Instant;

use testkit::Process;

use crate::capture::{assert_status, privileged};
use crate::perf_data::{folded_ns, samples};
use crate::stdout;

/// Its clock is 35 days ahead.
const NAMESPACE: [&str; 3] = ["--time", "--monotonic", "3000000"];

/// perf-agent in a time namespace.
fn shifted() -> Option<Command> {
    let mut command = testkit::unshare(&NAMESPACE)?;
    command.arg(env!("CARGO_BIN_EXE_perf-agent"));
    Some(command)
}

#[test]
fn waits_and_times_of_samples_are_those_outside_of_it() {
    let Some(mut agent) = privileged().then(shifted).flatten() else { return };
    let folder = tempfile::tempdir().unwrap();
    let loop_ = "while :; do i=0; while [ $i -lt 9999 ]; do i=$((i+1)); done; sleep 0.01; done";
    let target = Process::start(Command::new("sh").args(["-c", loop_])).unwrap();
    agent.args(["--profile", "--offcpu", "--pid", &target.pid().to_string(), "--duration", "1s"]);
    agent.args(["--folded-output", "x.folded", "--perf-data-output", "x.data", "--no-children"]);
    let began = Instant::now();
    let output = agent.current_dir(folder.path()).output().unwrap();
    let elapsed = began.elapsed();
    assert_status(&output, 0);
    let waited = folded_ns(&folder.path().join("x.off-cpu.folded"));
    assert!(waited > 0 && u128::from(waited) < elapsed.as_nanos(), "{waited} ns of {elapsed:?}");
    let samples = samples(&folder.path().join("x.data"));
    let times: BTreeSet<u64> = samples.iter().map(|sample| sample.time_ns).collect();
    assert!(times.len() > 10 && times.len() * 2 > samples.len(), "{times:?}");
    let (first, last) = (times.first().unwrap(), times.last().unwrap());
    assert!(u128::from(last - first) < elapsed.as_nanos(), "{times:?}");
}

#[test]
fn doctor_names_the_namespace() {
    let Some(mut agent) = privileged().then(shifted).flatten() else { return };
    let text = stdout(&agent.arg("doctor").output().unwrap());
    let line = text.lines().find(|line| line.contains("time namespace")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains(" s ahead of the kernel's"), "{line}");
}
