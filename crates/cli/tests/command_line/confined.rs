//! perf-agent where something other than missing capabilities is in its way: a user namespace, a seccomp filter, `/proc` with `hidepid` or without
//! a mount.

use std::os::unix::fs::PermissionsExt as _;

use testkit::Process;

use crate::capture::assert_status;
use crate::{stderr, stdout};

const PROGRAM: &str = env!("CARGO_BIN_EXE_perf-agent");

#[test]
fn a_user_namespace_is_named_as_the_cause() {
    let Some(mut command) = testkit::unshare(&["--user", "--map-root-user"]) else { return };
    let burner = Process::computing();
    let pid = burner.pid().to_string();
    let words = ["--profile", "--pid", &pid, "--duration", "100ms", "-o", "/dev/null"];
    let output = command.arg(PROGRAM).args(words).output().unwrap();
    assert_status(&output, 1);
    let text = stderr(&output);
    assert!(
        text.contains("although this process has the capabilities") && text.contains("user namespace user:["),
        "{text}"
    );
    let Some(mut command) = testkit::unshare(&["--user", "--map-root-user"]) else { return };
    let text = stdout(&command.args([PROGRAM, "doctor"]).output().unwrap());
    let line = text.lines().find(|line| line.contains("user namespace")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.starts_with("fail"), "{line}");
}

/// A filter that refuses bpf(2) and perf_event_open(2) with EPERM, then the program.
const FILTERED: &str = r#"
import ctypes, os, struct, sys
def instruction(code, yes, no, value): return struct.pack("HBBI", code, yes, no, value)
numbers = {"x86_64": (298, 321), "aarch64": (241, 280)}[os.uname().machine]
program = instruction(0x20, 0, 0, 0) + instruction(0x15, 1, 0, numbers[0]) + instruction(0x15, 0, 1, numbers[1])
program += instruction(6, 0, 0, 0x50001) + instruction(6, 0, 0, 0x7fff0000)
text = ctypes.create_string_buffer(program)
class Filter(ctypes.Structure): _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_void_p)]
libc = ctypes.CDLL(None)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(Filter(len(program) // 8, ctypes.addressof(text))), 0, 0): sys.exit(77)
os.execv(sys.argv[1], sys.argv[1:])
"#;

#[test]
fn a_seccomp_filter_is_named_as_the_cause() {
    if !crate::capture::privileged() {
        return;
    }
    let python = testkit::need!("python3");
    let burner = Process::computing();
    let pid = burner.pid().to_string();
    let mut command = std::process::Command::new(python);
    command.args([
        "-c",
        FILTERED,
        PROGRAM,
        "--profile",
        "--pid",
        &pid,
        "--duration",
        "100ms",
        "-o",
        "/dev/null",
    ]);
    let output = command.output().unwrap();
    if output.status.code() == Some(77) {
        testkit::skip!("seccomp filters are refused here");
    }
    assert_status(&output, 1);
    let text = stderr(&output);
    assert!(text.contains("it has a seccomp filter") && text.contains("seccomp=unconfined"), "{text}");
    assert!(!text.contains("missing privilege"), "{text}");
}

#[test]
fn a_process_that_proc_hides_and_a_missing_proc_are_named() {
    if !crate::capture::privileged() {
        return;
    }
    let setpriv = testkit::need!("setpriv");
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("perf-agent");
    std::fs::copy(PROGRAM, &binary).unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let target = Process::computing();
    let words = format!("--profile --pid {} --duration 100ms -o x.folded", target.pid());
    let capabilities = "--inh-caps +bpf,+perfmon --ambient-caps +bpf,+perfmon";
    let hidden = format!(
        "mount -t proc -o hidepid=2 proc /proc && \
         exec {} --reuid 65534 --regid 65534 --clear-groups {capabilities} ./perf-agent {words}",
        setpriv.display()
    );
    for (script, cause) in [
        (hidden, "it exists, but /proc does not show it"),
        (format!("umount -l /proc; exec ./perf-agent {words}"), "/proc is not mounted"),
    ] {
        let Some(mut command) = testkit::unshare(&["--mount"]) else { return };
        let output = command.args(["sh", "-c", &script]).current_dir(folder.path()).output().unwrap();
        assert_status(&output, 1);
        assert!(stderr(&output).contains(cause), "{}", stderr(&output));
    }
}
