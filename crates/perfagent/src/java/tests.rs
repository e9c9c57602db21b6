//! Real processes: JVMs that write their map, and programs that must not get the signal.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testkit::Process;

use super::*;

const SPIN: &str = "public class Spin { public static void main(String[] words) throws Exception { \
    System.out.println(\"ready\"); while (true) { Thread.sleep(5); } } }";

/// Maps a file named libjvm.so as code and waits; with an argument it catches SIGQUIT.
const LIKE_A_JVM: &str = r#"
import mmap, signal, sys, time
if len(sys.argv) > 2:
    signal.signal(signal.SIGQUIT, lambda *_: None)
with open(sys.argv[1] + "/libjvm.so", "w+b") as file:
    file.write(b"x" * 4096)
    file.flush()
    code = mmap.mmap(file.fileno(), 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
print("ready", flush=True)
while True:
    time.sleep(1)
"#;

fn started(mut command: Command, folder: &Path) -> Process {
    let output = folder.join("output");
    let file = fs::File::create(&output).unwrap();
    command.stdin(Stdio::null()).stdout(file).stderr(Stdio::null());
    let process = Process::start(&mut command).unwrap();
    testkit::until("it runs", || fs::read_to_string(&output).unwrap().contains("ready"));
    process
}

/// A JVM whose program runs.
fn jvm(java: &Path, folder: &Path, options: &[&str]) -> Process {
    let source = folder.join("Spin.java");
    fs::write(&source, SPIN).unwrap();
    let mut command = Command::new(java);
    // Without a file of counters, which stays in /tmp when the JVM is killed.
    command.arg("-XX:-UsePerfData").args(options).arg(source);
    started(command, folder)
}

fn like_a_jvm(folder: &Path, words: &[&str]) -> Process {
    let mut command = Command::new("python3");
    command.args(["-c", LIKE_A_JVM]).arg(folder).args(words).current_dir(folder);
    started(command, folder)
}

fn ask(pid: u32) -> Result<bool, String> {
    let start = process::task::start_time(pid).unwrap();
    write_perf_map(pid, start).map_err(|error| error.to_string())
}

/// The files that a JVM in our namespace has in /tmp because of us; removed at the end.
struct Left(u32);

impl Left {
    fn map(&self) -> PathBuf {
        format!("/tmp/perf-{}.map", self.0).into()
    }

    fn socket(&self) -> PathBuf {
        format!("/tmp/.java_pid{}", self.0).into()
    }

    fn request(&self) -> PathBuf {
        format!("/tmp/.attach_pid{}", self.0).into()
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        [self.map(), self.socket(), self.request()].iter().for_each(|path| drop(fs::remove_file(path)));
    }
}

/// The launcher of a JVM that also compiles.
fn java() -> Option<std::path::PathBuf> {
    testkit::needed("javac")?;
    testkit::needed("java")
}

#[test]
fn a_jvm_writes_its_map_as_often_as_it_is_asked() {
    let Some(java) = java() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut process = jvm(&java, folder.path(), &[]);
    let left = Left(process.pid());
    assert_eq!(ask(process.pid()), Ok(true));
    let text = fs::read_to_string(left.map()).unwrap();
    assert!(text.lines().count() > 100 && text.contains("StubRoutines"), "{} bytes", text.len());
    assert!(fs::metadata(left.socket()).unwrap().file_type().is_socket() && !left.request().exists());
    fs::remove_file(left.map()).unwrap();
    assert_eq!(ask(process.pid()), Ok(true));
    assert!(left.map().exists() && process.try_wait().unwrap().is_none());
    // As a user would find it after a program that had the number before, and was killed.
    assert!(write_perf_map(process.pid(), 1).is_err(), "another process is meant");
}

#[test]
fn a_jvm_that_the_signal_would_end_does_not_get_it() {
    let Some(java) = java() else { return };
    for option in ["-Xrs", "-XX:+DisableAttachMechanism"] {
        let folder = tempfile::tempdir().unwrap();
        let mut process = jvm(&java, folder.path(), &[option]);
        let left = Left(process.pid());
        let told = ask(process.pid()).unwrap_err();
        assert!(told.contains(option), "{told}");
        assert!(!left.request().exists() && !left.map().exists());
        std::thread::sleep(Duration::from_millis(200));
        assert!(process.try_wait().unwrap().is_none(), "{option}: it lives");
    }
}

#[test]
fn a_program_that_only_looks_like_a_jvm_lives_and_costs_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = like_a_jvm(folder.path(), &[]);
    let told = ask(process.pid()).unwrap_err();
    assert!(told.contains("does not catch SIGQUIT"), "{told}");
    std::thread::sleep(Duration::from_millis(200));
    assert!(process.try_wait().unwrap().is_none());

    let mut process = like_a_jvm(folder.path(), &["catches"]);
    let (left, begun) = (Left(process.pid()), Instant::now());
    let told = ask(process.pid()).unwrap_err();
    assert!(told.contains("did not answer"), "{told}");
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert!(process.try_wait().unwrap().is_none() && !left.request().exists());
    // A link in the place of the socket leads nowhere.
    std::os::unix::fs::symlink("/run/nobody", left.socket()).unwrap();
    assert!(ask(process.pid()).unwrap_err().contains("not its own"));
}

#[test]
fn a_jvm_in_a_container_writes_into_its_own_folder() {
    let Some(java) = java() else { return };
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::write(folder.path().join("Spin.java"), SPIN).unwrap();
    let options = ["--mount", "--pid", "--fork", "--kill-child"];
    let Some(mut command) = testkit::unshare(&options) else { return };
    let script = "mount -t tmpfs none /tmp && echo here && exec \"$0\" \"$1\"";
    command.args(["sh", "-c", script]).arg(java);
    command.arg(folder.path().join("Spin.java")).current_dir("/");
    let output = folder.path().join("output");
    command.stdin(Stdio::null()).stdout(fs::File::create(&output).unwrap()).stderr(Stdio::null());
    let mut outer = Process::start(&mut command).unwrap();
    let text = || fs::read_to_string(&output).unwrap();
    testkit::until("it runs or ends", || text().contains("ready") || outer.try_wait().unwrap().is_some());
    assert!(text().contains("here"), "{}", text());
    let parents = process::task::parents().unwrap();
    let (inner, _) = *parents.iter().find(|(_, parent)| *parent == outer.pid()).unwrap();
    assert_eq!(process::task::ns_pids(inner).unwrap().last(), Some(&1));
    assert_eq!(ask(inner), Ok(true));
    let in_it = |name: &str| PathBuf::from(format!("/proc/{inner}/root/tmp/{name}"));
    assert!(in_it("perf-1.map").exists() && !in_it(".attach_pid1").exists());
    assert!(!Path::new(&format!("/tmp/perf-{inner}.map")).exists());
}
