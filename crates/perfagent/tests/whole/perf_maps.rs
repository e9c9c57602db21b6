//! Perf maps that grow, and hostile ones, in whole captures. Without privileges the tests skip and say so.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use perfagent::{Agent, MemorySink, Warning};
use testkit::{PerfMap, Process};

use crate::started::started;

/// Makes two functions and a perf map of a kind, and runs them for ever.
const PROGRAM: &str = r#"
import ctypes, mmap, os, sys, time
LOOP = bytes.fromhex("48ffcf75fbc3")    # 1: dec %rdi; jnz 1b; ret
page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
start = ctypes.addressof(ctypes.c_char.from_buffer(page))
kind, path = sys.argv[1], f"/tmp/perf-{os.getpid()}.map"

def tell(at, name):
    with open(path, "ab") as map:
        map.write(b"%x %x %s\n" % (start + at, len(LOOP), name))

def run(at, seconds):
    page[at:at + len(LOOP)] = LOOP
    function = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(start + at)
    end = time.process_time() + seconds
    while time.process_time() < end:
        function(1_000_000)

if kind == "pipe":
    os.mkfifo(path)
elif kind == "zero":
    os.symlink("/dev/zero", path)
elif kind == "shadow":
    os.symlink("/etc/shadow", path)
else:
    tell(0, {"control": b"evil\x1b[2J;\xe2\x80\xaename\rx"}.get(kind, b"first"))
if kind == "large":
    os.truncate(path, 1 << 30)
print("ready", flush=True)
run(0, 0.3)
if kind == "grows":
    tell(256, b"second")
while True:
    run(0, 0.02)
    run(256, 0.02)
"#;

/// Folded stacks and warnings of a capture of such a program. `None`: there are no privileges.
fn captured(kind: &str) -> Option<(String, Vec<Warning>)> {
    let mut command = Command::new("python3");
    command.args(["-c", PROGRAM, kind]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut target = Process::start(&mut command).unwrap();
    // Removed at the end.
    let _map = PerfMap::of(target.pid());
    let line = target.first_line();
    assert_eq!(line, "ready");
    let sink = MemorySink::new();
    let builder = Agent::builder().pid(target.pid()).sample_rate(499).with_cpu_profile();
    let agent = builder.folded_to(sink.clone()).build().unwrap();
    if !started(&agent) {
        return None;
    }
    // More CPU time than the program takes until it tells the second function.
    testkit::until("half a second of CPU time", || agent.ledger().samples > 250);
    let begun = Instant::now();
    let report = agent.stop().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(60), "{kind}: {:?}", begun.elapsed());
    Some((String::from_utf8(sink.take()).unwrap(), report.warnings.clone()))
}

fn told(warnings: &[Warning], words: &str) -> bool {
    warnings.iter().any(|warning| warning.message.contains("perf map") && warning.message.contains(words))
}

#[test]
fn names_that_are_added_during_the_capture_are_found() {
    let Some((folded, warnings)) = captured("grows") else { return };
    assert!(folded.contains("first") && folded.contains("second"), "{folded}");
    assert!(!folded.contains("[jit]") && !told(&warnings, ""), "{warnings:?}");
}

#[test]
fn links_and_pipes_are_neither_followed_nor_waited_for() {
    for (kind, why) in
        [("pipe", "not a regular file"), ("zero", "symbolic link"), ("shadow", "symbolic link")]
    {
        let Some((folded, warnings)) = captured(kind) else { return };
        assert!(folded.contains("[jit]") && !folded.contains("root:"), "{kind}: {folded}");
        assert!(told(&warnings, why), "{kind}: {warnings:?}");
    }
}

#[test]
fn a_map_of_a_gigabyte_costs_its_own_names_only() {
    let Some((folded, warnings)) = captured("large") else { return };
    assert!(folded.contains("first"), "{folded}");
    assert!(told(&warnings, "beyond the limit"), "{warnings:?}");
}

#[test]
fn control_characters_in_names_do_not_reach_outputs() {
    let Some((folded, _)) = captured("control") else { return };
    assert!(folded.contains("evil"), "{folded}");
    for bad in ['\u{1b}', '\r', '\u{202e}'] {
        assert!(!folded.contains(bad), "{bad:?}: {folded:?}");
    }
    assert!(folded.lines().all(|line| line.rsplit_once(' ').is_some_and(|(_, n)| n.parse::<u64>().is_ok())));
}

/// Runs a function that it made, and writes its perf map when it is asked to as a .NET runtime is. Tells what it is asked for.
const LIKE_DOTNET: &str = r#"
import ctypes, mmap, os, socket, struct, threading
LOOP = bytes.fromhex("48ffcf75fbc3")    # 1: dec %rdi; jnz 1b; ret
page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
start = ctypes.addressof(ctypes.c_char.from_buffer(page))
page[0:len(LOOP)] = LOOP
pid, ticks, map = os.getpid(), open("/proc/self/stat").read().rsplit(")", 1)[1].split()[19], None
listener = socket.socket(socket.AF_UNIX)
listener.bind("%s/dotnet-diagnostic-%d-%s-socket" % (os.environ["TMPDIR"], pid, ticks))
listener.listen(8)

def serve():
    global map
    while True:
        near, _ = listener.accept()
        command = near.recv(64)[17]
        # Before its effect is seen: then the test may end.
        print(command, flush=True)
        if command == 5:
            map = open("/tmp/perf-%d.map" % pid, "w")
        if command == 6:
            # It is kept back until the file is closed, as the C library does.
            map.write("%x %x managed\n" % (start, len(LOOP)))
            map.close()
        near.sendall(b"DOTNET_IPC_V1\0" + struct.pack("<HBBHI", 24, 0xff, 0, 0, 0))
        near.close()

threading.Thread(target=serve, daemon=True).start()
function = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(start)
print("ready", flush=True)
while True:
    function(1_000_000)
"#;

/// Starts such a program.
fn like_dotnet(folder: &std::path::Path) -> (Process, impl Iterator<Item = String>) {
    let mut command = Command::new("python3");
    command.args(["-c", LIKE_DOTNET]).env("TMPDIR", folder).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut target = Process::start(&mut command).unwrap();
    let mut lines = BufReader::new(target.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("ready"));
    (target, lines)
}

/// An agent that records it. `None`: there are no privileges.
fn recording(target: &Process, asks: bool) -> Option<(Agent, MemorySink)> {
    let sink = MemorySink::new();
    let builder = Agent::builder().pid(target.pid()).sample_rate(499).with_cpu_profile();
    let agent = builder.dotnet_perf_map(asks).folded_to(sink.clone()).build().unwrap();
    started(&agent).then_some((agent, sink))
}

#[test]
fn a_dotnet_runtime_is_asked_to_write_its_map_and_to_close_it_before_the_last_names() {
    let folder = tempfile::tempdir().unwrap();
    let (mut target, lines) = like_dotnet(folder.path());
    let _map = PerfMap::of(target.pid());
    let Some((agent, sink)) = recording(&target, true) else { return };
    testkit::until("half a second of CPU time", || agent.ledger().samples > 250);
    let report = agent.stop().unwrap();
    target.kill().unwrap();
    assert_eq!(lines.collect::<Vec<_>>(), ["5", "6"], "{:?}", report.warnings);
    let folded = String::from_utf8(sink.take()).unwrap();
    assert!(folded.contains("managed") && !folded.contains("[jit]"), "{folded}");
}

#[test]
fn a_dotnet_runtime_whose_capture_is_dropped_is_asked_to_close_its_map() {
    let folder = tempfile::tempdir().unwrap();
    let (mut target, lines) = like_dotnet(folder.path());
    let map = PerfMap::of(target.pid());
    let Some((agent, _)) = recording(&target, true) else { return };
    testkit::until("it is asked to write its map", || map.path().exists());
    drop(agent);
    testkit::until("its map is closed", || std::fs::read_to_string(map.path()).unwrap().contains("managed"));
    target.kill().unwrap();
    assert_eq!(lines.collect::<Vec<_>>(), ["5", "6"]);
}

#[test]
fn a_dotnet_runtime_is_not_asked_without_the_option() {
    let folder = tempfile::tempdir().unwrap();
    let (mut target, lines) = like_dotnet(folder.path());
    let Some((agent, sink)) = recording(&target, false) else { return };
    testkit::until("half a second of CPU time", || agent.ledger().samples > 250);
    agent.stop().unwrap();
    target.kill().unwrap();
    assert_eq!(lines.collect::<Vec<_>>(), [] as [&str; 0]);
    let folded = String::from_utf8(sink.take()).unwrap();
    assert!(folded.contains("[jit]"), "no [jit]: {folded}");
}
