//! Values that a profile sums up, beside the same events as a stream: one reads them in the kernel, the other from the kernel's records.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::{Lines, Process};

use crate::capture::{assert_status, privileged, signal, start_in};
use crate::stdout;

/// Waits for a line, and reads different numbers of bytes; each tenth read fails. Then it waits for another line.
const READER: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
    char bytes[600];
    int zeros = open("/dev/zero", O_RDONLY);
    if (read(0, bytes, 1) != 1) return 1;
    for (int i = 0; i < 3000; i++) if (read(i % 10 ? zeros : -1, bytes, i % 600) < -1) return 1;
    puts("done");
    fflush(stdout);
    return read(0, bytes, 1) < 0;
}
"#;

#[test]
fn sums_of_a_field_equal_those_of_the_records_and_take_no_event_from_others() {
    if !Path::new("/sys/kernel/tracing/events/syscalls/sys_exit_read").is_dir() {
        testkit::skip!("the kernel has no tracepoints of system calls here");
    }
    if !privileged() {
        return;
    }
    let cc = testkit::need!("cc");
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("reader.c"), folder.path().join("reader"));
    std::fs::write(&source, READER).unwrap();
    assert!(Command::new(cc).args(["-O1", "-o"]).arg(&program).arg(&source).status().unwrap().success());
    let mut target =
        Process::start(Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap();
    let pid = target.pid().to_string();

    let traced =
        ["events", "trace", "-e", "syscalls:sys_exit_read", "--pid", &pid, "--json", "--ring-pages", "1024"];
    let trace = start_in(folder.path(), &traced);
    let profiled = [
        "--profile",
        "--event",
        "syscalls:sys_exit_read value=ret:bytes",
        "--pid",
        &pid,
        "--duration",
        "60s",
        "--folded-output",
        "sums.folded",
        "--metrics-listen",
        ":0",
    ];
    let mut profile = start_in(folder.path(), &profiled);
    let told = Lines::of(profile.stderr.take().unwrap());
    while !told.next().starts_with("metrics are served at ") {}
    testkit::until("the trace has begun", || testkit::waits_for_events(trace.id(), 1));

    let mut stdin = target.stdin.take().unwrap();
    stdin.write_all(b"\n").unwrap();
    let mut done = [0; 5];
    std::io::Read::read_exact(&mut target.stdout.take().unwrap(), &mut done).unwrap();
    signal(&profile, "INT");
    assert!(profile.wait().unwrap().success());
    signal(&trace, "TERM");
    let trace = trace.wait_with_output().unwrap();
    assert_status(&trace, 0);

    let lines: Vec<Value> = stdout(&trace).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let lost: u64 = lines.iter().filter_map(|line| line["lost"]["count"].as_u64()).sum();
    let values: Vec<i64> = lines.iter().filter_map(|line| line["fields"]["ret"].as_i64()).collect();
    let folded = std::fs::read_to_string(folder.path().join("sums.folded")).unwrap();
    let sum = |is_meant: &dyn Fn(&str) -> bool| -> u64 {
        let stacks = folded.lines().filter_map(|line| line.rsplit_once(' '));
        stacks.filter(|(stack, _)| is_meant(stack)).map(|(_, value)| value.parse::<u64>().unwrap()).sum()
    };
    let expected: u64 = (0..3000u64).filter(|call| call % 10 != 0).map(|call| call % 600).sum();
    // The one byte of the line that it waited for may have been asked for before.
    let all = sum(&|_| true);
    assert!(all == expected || all == expected + 1, "{all} of {expected}: {folded}");
    assert_eq!(lost, 0);
    let of_records: u64 = values.iter().filter_map(|value| u64::try_from(*value).ok()).sum();
    assert!(of_records == expected || of_records == expected + 1, "{of_records} of {expected}");
    assert!(values.len() >= 3000, "{}", values.len());
}
