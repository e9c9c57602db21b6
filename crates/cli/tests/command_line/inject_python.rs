//! `--inject-python`: what it needs, what it tells, and that nothing stays on.

use std::path::Path;
use std::process::{Command, Stdio};

use testkit::{PerfMap, Process};

use crate::capture::{privileged, signal, start_in};
use crate::{run, run_in, stderr};

/// Says at SIGUSR1 whether the trampoline is on, in the file `said`. Two threads compute.
const PROGRAM: &str = r#"
import os, signal, sys, threading
def told(*_):
    said = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(said, b"on\n" if sys.is_stack_trampoline_active() else b"off\n")
    os.close(said)
signal.signal(signal.SIGUSR1, told)
def compute():
    while True:
        sum(range(100))
threading.Thread(target=compute, daemon=True).start()
open("runs", "w").close()
compute()
"#;

/// An interpreter whose trampoline can be switched.
fn interpreter() -> Option<&'static Path> {
    Some(&testkit::switchable_pythons().first()?.program)
}

struct Program {
    process: Process,
    folder: tempfile::TempDir,
    _map: PerfMap,
}

impl Program {
    fn start(python: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(python);
        command.args(["-c", PROGRAM]).current_dir(folder.path()).stdin(Stdio::null());
        let process = Process::start(&mut command).unwrap();
        testkit::until("it runs", || folder.path().join("runs").exists());
        let map = PerfMap::of(process.pid());
        Self { process, folder, _map: map }
    }

    fn pid(&self) -> String {
        self.process.pid().to_string()
    }

    fn is_on(&self) -> bool {
        let said = || std::fs::read_to_string(self.folder.path().join("said")).unwrap_or_default();
        let before = said().lines().count();
        testkit::send(self.process.pid(), testkit::Signal::USR1);
        testkit::until("it answers", || said().lines().count() > before);
        said().lines().last() == Some("on")
    }
}

#[test]
fn what_was_done_is_told_and_a_refusal_has_its_word() {
    let Some(python) = interpreter() else { return };
    if !privileged() {
        return;
    }
    let program = Program::start(python);
    let pid = program.pid();
    let words = ["--profile", "--inject-python", "-p", &pid, "-d", "200ms", "-o", "/dev/null", "-v"];
    let output = run(&words);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let line = "python: activated 1, already on 0, deactivated 1, skipped 0, failed 0";
    assert!(text.contains(line) && text.contains(&format!("/tmp/perf-{pid}.map")), "{text}");
    assert!(text.lines().any(|line| line.split_whitespace().eq(["inject.deactivated", "1"])), "{text}");
    assert!(!program.is_on());

    let sleeper = Process::start(Command::new("sleep").arg("1000")).unwrap();
    let other = sleeper.pid();
    let both = format!("{pid},{other}");
    let output = run(&["--profile", "--inject-python", "-p", &both, "-d", "200ms"]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(&format!("error: python: pid {other}: not_python: ")), "{text}");
    assert!(text.contains("hint: leave --inject-python out"), "{text}");
    assert!(!program.is_on());
}

/// With `-a`, of the processes of a PID namespace: others on this machine are not to be touched.
#[test]
fn with_the_whole_system_refusals_are_counted() {
    let Some(python) = interpreter() else { return };
    if !privileged() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The first process of a namespace takes no signals but its own. Perf maps that stay are in a file system of the namespace.
    let script = r#"mount -t tmpfs none /tmp || exit 77
        "$1" -c "$2" & until [ -e runs ]; do sleep 0.01; done
        sleep 1000 & other=$!
        "$0" --profile --inject-python -a -d 200ms -o /dev/null; echo "status $?" >&2
        kill -KILL $other %1"#;
    let Some(mut command) = testkit::unshare(&["--pid", "--fork", "--mount-proc"]) else { return };
    let output = command
        .args(["sh", "-c", script, env!("CARGO_BIN_EXE_perf-agent")])
        .arg(python)
        .arg(PROGRAM)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = stderr(&output);
    assert!(text.contains("status 0"), "{text}");
    assert!(text.contains("python: activated 1, already on 0, deactivated 1, skipped "), "{text}");
    assert!(text.contains("(not_python ") && text.contains(", failed 0"), "{text}");
    assert!(!text.contains(": not_python: "), "{text}");
}

#[test]
fn a_signal_at_any_moment_of_the_start_leaves_nothing_on() {
    let Some(python) = interpreter() else { return };
    if !privileged() {
        return;
    }
    let program = Program::start(python);
    let folder = tempfile::tempdir().unwrap();
    let words = ["--profile", "--inject-python", "-p", &program.pid(), "-d", "60s", "-o", "/dev/null"];
    let is_gone = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_err();
    for step in 0..8 {
        let mut child = start_in(folder.path(), &words);
        // Anywhere between the begin of the program and the first samples; each moment is right.
        std::thread::sleep(std::time::Duration::from_millis(20 + 60 * step));
        if !is_gone(child.id()) {
            signal(&child, "TERM");
        }
        child.wait().unwrap();
        assert!(!program.is_on(), "step {step}");
    }
}

#[test]
fn the_capability_that_is_missing_is_named() {
    let binary = env!("CARGO_BIN_EXE_perf-agent");
    let words = ["--profile", "--inject-python", "--pid", "1", "-o", "/dev/null"];
    let output = Command::new(testkit::need!("setpriv"))
        .args(["--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", binary])
        .args(words)
        .output()
        .unwrap();
    if stderr(&output).starts_with("setpriv:") {
        testkit::skip!("this user cannot drop a capability: {}", stderr(&output));
    }
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    let is_other_machine = text.contains("--inject-python is not available");
    assert!(
        text.contains("missing privilege") && text.contains("cap_sys_ptrace") || is_other_machine,
        "{text}"
    );
}

#[test]
fn it_needs_a_profile() {
    let folder = tempfile::tempdir().unwrap();
    let output = run_in(folder.path(), &["--offcpu", "--inject-python", "--pid", "1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--inject-python requires --profile"), "{}", stderr(&output));
}
