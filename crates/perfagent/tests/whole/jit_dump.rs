//! Code made at run time by a program that tells of it in a jitdump. Without privileges the test skips and says so.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use perfagent::model::Profile;
use perfagent::{Agent, MemorySink};

use crate::started::started;

/// Makes a function, tells of it, moves it, and tells of another one when that has already run. The file of the dump has no name any more.
const PROGRAM: &str = r#"
import ctypes, mmap, os, struct, sys, time
LOOP = bytes.fromhex("48ffcf75fbc3")    # 1: dec %rdi; jnz 1b; ret
page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
start = ctypes.addressof(ctypes.c_char.from_buffer(page))
path = os.path.join(sys.argv[1], f"jit-{os.getpid()}.dump")
dump = open(path, "w+b", buffering=0)
dump.write(struct.pack("<IIIIIIQQ", 0x4A695444, 1, 40, 62, 0, os.getpid(), time.monotonic_ns(), 0))
marker = mmap.mmap(dump.fileno(), 40, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
os.unlink(path)

def record(kind, body):
    dump.write(struct.pack("<IIQ", kind, 16 + len(body), time.monotonic_ns()) + body)

def tell(at, name):
    lines = struct.pack("<QII", start + at, 7, 3) + b"/src/made.x\0"
    record(2, struct.pack("<QQ", start + at, 1) + lines)
    record(0, struct.pack("<IIQQQQ", 1, 1, start + at, start + at, len(LOOP), at) + name + b"\0" + LOOP)

def run(at):
    page[at:at + len(LOOP)] = LOOP
    function = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(start + at)
    end = time.process_time() + 0.7
    while time.process_time() < end:
        function(10_000_000)

tell(0, b"made first")
run(0)
record(1, struct.pack("<IIQQQQQ", 1, 1, start + 256, start, start + 256, len(LOOP), 0))
run(256)
run(512)
tell(512, b"told late")
"#;

/// Samples by the innermost function, with its file and line, in percent.
fn leaves(profile: &Profile) -> HashMap<String, i64> {
    let mut found = HashMap::new();
    let mut total = 0;
    for sample in &profile.samples {
        let leaf = sample.locations.first().map(|id| &profile.locations[id.0 as usize]);
        let shown = leaf.and_then(|leaf| leaf.lines.first()).map_or_else(String::new, |line| {
            let function = &profile.functions[line.function.0 as usize];
            format!("{} {}:{}", function.name, function.filename, line.line)
        });
        *found.entry(shown).or_insert(0) += sample.values[0];
        total += sample.values[0];
    }
    found.values_mut().for_each(|share| *share = *share * 100 / total.max(1));
    found
}

#[test]
fn code_is_named_by_the_jitdump_that_its_program_maps() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("python3");
    command.args(["-c", PROGRAM]).arg(folder.path()).stdin(Stdio::null());
    let agent = Agent::builder().command(command).sample_rate(499).with_cpu_profile().build().unwrap();
    if !started(&agent) {
        return;
    }
    agent.wait(Duration::from_secs(120));
    let report = agent.stop().unwrap();
    let found = leaves(&report.cpu_profile().unwrap());
    let share = |name: &str| found.get(name).copied().unwrap_or(0);
    assert!(share("made first /src/made.x:7") > 40, "in both places: {found:?}");
    assert!(share("told late /src/made.x:7") > 20, "{found:?}");
    assert!(!found.keys().any(|name| name.starts_with("[jit]")), "{found:?}");
}

/// A name that would be other lines and colours in a terminal, and behind it a record of 4 GiB that has nothing but zeros.
const HOSTILE: &str = r#"
tell(0, b"evil\n\x1b[31m;made \xe2\x80\xae7")
dump.write(struct.pack("<IIQ", 2, 0xffffffff, time.monotonic_ns()) + struct.pack("<QQ", start, 1 << 40))
os.ftruncate(dump.fileno(), 4 << 30)
run(0)
"#;

#[test]
fn a_dump_of_four_gigabytes_costs_its_own_names_only_and_control_characters_reach_no_output() {
    let folder = tempfile::tempdir().unwrap();
    let (before, _) = PROGRAM.split_once("tell(0, b\"made first\")").unwrap();
    let mut command = Command::new("python3");
    command.args(["-c", &[before, HOSTILE].concat()]).arg(folder.path()).stdin(Stdio::null());
    let sink = MemorySink::new();
    let builder = Agent::builder().command(command).sample_rate(499).with_cpu_profile();
    let agent = builder.folded_to(sink.clone()).build().unwrap();
    if !started(&agent) {
        return;
    }
    agent.wait(Duration::from_secs(120));
    let begun = Instant::now();
    let report = agent.stop().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    let folded = String::from_utf8(sink.take()).unwrap();
    assert!(folded.contains("evil"), "{folded}: {:?}", report.warnings);
    assert!(!folded.contains(['\u{1b}', '\r', '\u{202e}']), "{folded:?}");
    let is_whole = |line: &str| line.rsplit_once(' ').is_some_and(|(_, count)| count.parse::<u64>().is_ok());
    assert!(folded.lines().all(is_whole), "{folded:?}");
}
