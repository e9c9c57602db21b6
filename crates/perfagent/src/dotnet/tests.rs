//! Real processes that answer as a runtime does, or otherwise.

use std::fs;
use std::path::PathBuf;
use std::process::{Command as Program, Stdio};

use testkit::Process;

use super::*;

/// Listens as a runtime does, and behaves as the first argument says.
const LIKE_A_RUNTIME: &str = r#"
import os, socket, struct, sys, time
manner, folder, pid = sys.argv[1], os.environ["TMPDIR"], os.getpid()
start = open("/proc/self/stat").read().rsplit(")", 1)[1].split()[19]
map, name = None, "/tmp/perf-%d.map" % pid
if manner == "was-on":
    map = open(name, "w")
listener = socket.socket(socket.AF_UNIX)
listener.bind("%s/dotnet-diagnostic-%d-%s-socket" % (folder, pid, start))
listener.listen(8)
def answer(kind, number):
    return b"DOTNET_IPC_V1\0" + struct.pack("<HBBHI", 24, 0xff, kind, 0, number)
print("ready", flush=True)
while True:
    near, _ = listener.accept()
    asked = near.recv(64)
    print("%d.%d" % (asked[16], asked[17]), flush=True)
    if manner == "old":
        near.sendall(answer(0xff, 0x80131385))
    elif manner == "silent":
        time.sleep(60)
    elif manner == "cut":
        near.sendall(answer(0, 0)[:10])
    elif manner == "endless":
        try:
            while True:
                near.sendall(b"x" * 65536)
        except OSError:
            pass
    else:
        if asked[17] == 5 and manner != "opens-none":
            map = open(folder + name[4:] if manner == "elsewhere" else name, "w")
            map.write("10 10 name\n")
        elif map:
            map.close()
        near.sendall(answer(0, 0))
    near.close()
"#;

/// A process like a runtime; what it left in `/tmp` is removed at the end.
struct Like {
    process: Process,
    folder: tempfile::TempDir,
}

impl Like {
    fn a_runtime(manner: &str, variable: Option<(&str, &str)>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Program::new("python3");
        command.args(["-c", LIKE_A_RUNTIME, manner]).env("TMPDIR", folder.path()).envs(variable);
        let output = fs::File::create(folder.path().join("output")).unwrap();
        command.stdin(Stdio::null()).stdout(output).stderr(Stdio::null());
        let process = Process::start(&mut command).unwrap();
        let like = Self { process, folder };
        testkit::until("it listens", || like.asked().is_some());
        like
    }

    /// The commands that it was asked for; none before it listens.
    fn asked(&self) -> Option<Vec<String>> {
        let text = fs::read_to_string(self.folder.path().join("output")).unwrap();
        let mut lines = text.lines().map(str::to_owned);
        (lines.next()? == "ready").then(|| lines.collect())
    }

    fn map(&self) -> PathBuf {
        format!("/tmp/perf-{}.map", self.process.pid()).into()
    }

    fn start(&self) -> u64 {
        process::task::start_time(self.process.pid()).unwrap()
    }

    fn turn_on(&self) -> Result<Asked, DotNetError> {
        turn_on(self.process.pid(), self.start())
    }

    fn turn_off(&self, is_sure: bool) -> bool {
        let closing = turn_off(self.process.pid(), self.start(), is_sure).unwrap();
        closing.map(|one| one.finish(Instant::now() + PATIENCE, PATIENCE).unwrap()).is_some()
    }
}

impl Drop for Like {
    fn drop(&mut self) {
        drop(fs::remove_file(self.map()));
    }
}

const ON: &str = "4.5";
const OFF: &str = "4.6";

#[test]
fn a_runtime_is_turned_on_and_off_and_its_map_stays() {
    let like = Like::a_runtime("as-it-should", None);
    assert_eq!(like.turn_on().unwrap(), Asked::TurnedOn);
    assert_eq!(like.turn_on().unwrap(), Asked::WasOn, "it is not asked twice");
    assert_eq!(like.asked().unwrap(), [ON]);
    assert!(like.turn_off(true) && !like.turn_off(true), "it is closed by now");
    assert_eq!(like.asked().unwrap(), [ON, OFF]);
    assert_eq!(fs::read_to_string(like.map()).unwrap(), "10 10 name\n");
    assert_eq!(like.turn_on().unwrap(), Asked::TurnedOn, "again");
    assert!(matches!(turn_on(like.process.pid(), 1), Err(DotNetError::Gone)), "another process is meant");
    assert!(turn_off(like.process.pid(), 1, true).unwrap().is_none());
}

#[test]
fn a_runtime_whose_map_is_on_is_left_as_it_is() {
    let like = Like::a_runtime("was-on", None);
    assert_eq!(like.turn_on().unwrap(), Asked::WasOn);
    assert_eq!(like.asked().unwrap(), [] as [&str; 0]);
}

#[test]
fn a_runtime_that_refuses_is_told_with_its_cause_and_nothing_stays() {
    let like = Like::a_runtime("old", None);
    assert!(matches!(like.turn_on(), Err(DotNetError::TooOld)));
    assert!(!like.map().exists());
    let like = Like::a_runtime("as-it-should", Some(("DOTNET_PerfMapJitDumpPath", "/var/tmp")));
    assert!(like.turn_on().unwrap_err().to_string().contains("only /tmp is read"));
    assert_eq!(like.asked().unwrap(), [] as [&str; 0]);
    let like = Like::a_runtime("as-it-should", None);
    std::os::unix::fs::symlink("/run/nobody", like.map()).unwrap();
    assert!(matches!(like.turn_on(), Err(DotNetError::NotItsMap(_))));
    assert_eq!(like.asked().unwrap(), [] as [&str; 0], "it would follow the link");
}

#[test]
fn a_map_that_is_not_opened_where_it_is_read_is_closed_only_if_it_is_open() {
    let like = Like::a_runtime("opens-none", None);
    assert!(matches!(like.turn_on(), Err(DotNetError::NotOpened)));
    assert_eq!(like.asked().unwrap(), [ON]);
    assert!(!like.map().exists());
    let like = Like::a_runtime("elsewhere", None);
    assert!(matches!(like.turn_on(), Err(DotNetError::NotOpened)));
    assert_eq!(like.asked().unwrap(), [ON, OFF]);
    assert!(!like.map().exists());
}

#[test]
fn hostile_answers_cost_seconds_and_the_map_is_closed_all_the_same() {
    for manner in ["silent", "cut", "endless"] {
        let (like, begun) = (Like::a_runtime(manner, None), Instant::now());
        let error = like.turn_on().unwrap_err();
        assert!(error.may_have_obeyed(), "{manner}: {error}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{manner}");
        // It is asked although no open map is seen.
        assert!(turn_off(like.process.pid(), like.start(), false).unwrap().is_some(), "{manner}");
    }
}

#[test]
fn a_stopped_process_is_not_asked_to_begin_and_finds_the_request_to_end() {
    let like = Like::a_runtime("as-it-should", None);
    like.turn_on().unwrap();
    let pid = rustix::process::Pid::from_raw(like.process.pid().cast_signed()).unwrap();
    let signal = |signal| rustix::process::kill_process(pid, signal).unwrap();
    signal(rustix::process::Signal::STOP);
    testkit::until("it is stopped", || {
        crate::runtime_socket::status(like.process.pid()).unwrap().unwrap().is_stopped()
    });
    let closing = turn_off(like.process.pid(), like.start(), true).unwrap().unwrap();
    assert!(matches!(closing.finish(Instant::now(), PATIENCE), Err(DotNetError::Stopped)));
    signal(rustix::process::Signal::CONT);
    testkit::until("it is asked to close its map", || like.asked().unwrap() == [ON, OFF]);
    let like = Like::a_runtime("as-it-should", None);
    let pid = rustix::process::Pid::from_raw(like.process.pid().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    testkit::until("it is stopped", || matches!(like.turn_on(), Err(DotNetError::Stopped)));
}

#[test]
fn a_runtime_in_a_container_writes_into_its_own_folder() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let output = folder.path().join("output");
    let options = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let Some(mut command) = testkit::unshare(&options) else { return };
    let script = "mount -t tmpfs none /tmp && echo here && TMPDIR=/tmp exec python3 -c \"$0\" as-it-should";
    command.args(["sh", "-c", script]);
    command.arg(LIKE_A_RUNTIME).current_dir("/");
    command.stdin(Stdio::null()).stdout(fs::File::create(&output).unwrap()).stderr(Stdio::null());
    let mut outer = Process::start(&mut command).unwrap();
    let text = || fs::read_to_string(&output).unwrap();
    testkit::until("it runs or ends", || text().contains("ready") || outer.try_wait().unwrap().is_some());
    assert!(text().contains("here"), "{}", text());
    let parents = process::task::parents().unwrap();
    let (inner, _) = *parents.iter().find(|(_, parent)| *parent == outer.pid()).unwrap();
    let start = process::task::start_time(inner).unwrap();
    assert_eq!(turn_on(inner, start).unwrap(), Asked::TurnedOn);
    let map = format!("/proc/{inner}/root/tmp/perf-1.map");
    // It would end if nobody took its answer, and its root folder with it.
    let closing = turn_off(inner, start, true).unwrap().unwrap();
    closing.finish(Instant::now() + PATIENCE, PATIENCE).unwrap();
    assert_eq!(fs::read_to_string(&map).unwrap(), "10 10 name\n");
    assert!(!std::path::Path::new(&format!("/tmp/perf-{inner}.map")).exists());
}
