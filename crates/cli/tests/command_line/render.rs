//! `perf-agent render`: outputs from a recording, by a user without privileges, when the target is gone.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::Process;

use crate::capture::{assert_status, files, privileged};
use crate::{run_in, stderr};

/// The outputs of the live run; `render` writes them again.
const OUTPUTS: [&str; 12] = [
    "--profile-output",
    "on.pb.gz",
    "--offcpu-output",
    "off.pb.gz",
    "--folded-output",
    "all.folded",
    "--flamegraph-output",
    "all.svg",
    "--html-output",
    "all.html",
    "--merge=pid",
    "--inverted",
];

/// A process that computes and waits for its children by turns.
fn computing_and_waiting() -> Process {
    let script = "while :; do i=0; while [ $i -lt 1000 ]; do i=$((i+1)); done; sleep 0.01; done";
    let mut command = Command::new("sh");
    Process::start(command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null())).unwrap()
}

/// Sets the permissions of a file or a folder.
fn permit(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_user_without_privileges_renders_the_outputs_of_the_live_run() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let [live, later] = ["live", "later"].map(|name| directory.path().join(name));
    for folder in [&live, &later] {
        fs::create_dir(folder).unwrap();
    }
    let target = computing_and_waiting();
    let pid = target.pid().to_string();
    let capture = ["--profile", "--offcpu", "--sample-rate", "499", "--duration", "1s", "--pid", &pid];
    let recorded = ["--recording-output", "../recording"];
    assert_status(&run_in(&live, &[&capture[..], &OUTPUTS, &recorded].concat()), 0);
    drop(target);

    let program = directory.path().join("perf-agent");
    fs::copy(env!("CARGO_BIN_EXE_perf-agent"), &program).unwrap();
    permit(directory.path(), 0o755);
    permit(&directory.path().join("recording"), 0o644);
    permit(&later, 0o777);
    let rendered = Command::new(testkit::need!("setpriv"))
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"])
        .arg(&program)
        .args(["render", "../recording"])
        .args(OUTPUTS)
        .current_dir(&later)
        .output()
        .unwrap();
    if stderr(&rendered).starts_with("setpriv:") {
        testkit::skip!("this user cannot change to another: {}", stderr(&rendered));
    }
    assert_status(&rendered, 0);
    let names = [
        "all.off-cpu.folded",
        "all.off-cpu.html",
        "all.off-cpu.svg",
        "all.on-cpu.folded",
        "all.on-cpu.html",
        "all.on-cpu.svg",
        "off.pb.gz",
        "on.pb.gz",
    ];
    assert_eq!(files(&later), names);
    assert_eq!(files(&later), files(&live));
    for name in files(&live) {
        let [of_live, of_later] = [&live, &later].map(|folder| fs::read(folder.join(&name)).unwrap());
        assert!(!of_live.is_empty() && of_live == of_later, "{name} differs");
        assert_eq!(fs::metadata(later.join(&name)).unwrap().uid(), 65534, "{name} is of another user");
    }
}
