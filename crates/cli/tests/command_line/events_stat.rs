//! `perf-agent events stat`: counts beside those of perf, their ends, and what is said where there are none.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::capture::{assert_status, signal, start_in};
use crate::{run, stderr, stdout};

/// Runs `events stat`; `None` if this user may not count.
fn stat(words: &[&str]) -> Option<Output> {
    let output = run(&[&["events", "stat"], words].concat());
    let text = stderr(&output);
    if text.contains("needs cap_perfmon") || text.contains("tracefs") {
        testkit::skipped(format_args!("{text}"));
        return None;
    }
    Some(output)
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn value(lines: &[Value], event: &str) -> u64 {
    let line = lines.iter().find(|line| line["event"] == event);
    line.and_then(|line| line["value"].as_u64()).unwrap_or_else(|| panic!("{event}: {lines:?}"))
}

/// A command that makes children and many system calls.
const WORK: [&str; 5] =
    ["sh", "-c", "for i in 1 2 3 4 5; do cat /proc/self/maps > /dev/null; done; exit 7", "x", "y"];

#[test]
fn a_command_counts_as_in_perf() {
    let events = "raw_syscalls:sys_enter,sched:sched_process_fork,page-faults,task-clock";
    let Some(output) = stat(&[&["-e", events, "--json", "--"], &WORK[..]].concat()) else { return };
    assert_status(&output, 7);
    let ours = lines(&stderr(&output));
    assert_eq!((ours.len(), stdout(&output).as_str()), (4, ""), "{ours:?}");
    // perf's own numbers, with the values first: `-x,` separates them by commas.
    let mut perf = Command::new(testkit::need!("perf"));
    let perf = perf.args(["stat", "-x,", "-e", events, "--"]).args(WORK).output().unwrap();
    let text = stderr(&perf);
    let theirs = |event: &str| {
        let line =
            text.lines().find(|line| line.contains(event)).unwrap_or_else(|| panic!("{event}: {text}"));
        line.split(',').next().unwrap().parse::<f64>().unwrap()
    };
    assert_eq!((value(&ours, "sched:sched_process_fork"), theirs("sched_process_fork")), (5, 5.0));
    let near = |event: &str, theirs: f64, part: f64| {
        let ours = value(&ours, event) as f64;
        assert!((ours - theirs).abs() <= theirs * part, "{event}: {ours} and {theirs} of perf");
    };
    near("raw_syscalls:sys_enter", theirs("raw_syscalls:sys_enter"), 0.02);
    near("page-faults", theirs("page-faults"), 0.1);
    for line in &ours {
        assert_eq!((&line["estimated"], &line["counted"]), (&Value::Bool(false), &line["value"]));
        assert_eq!(line["enabled_ns"], line["running_ns"]);
    }
}

#[test]
fn a_process_is_counted_until_it_ends() {
    let mut target = Command::new("sh")
        .args(["-c", "read line; for i in 1 2 3; do /bin/true; done; read line"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = target.id().to_string();
    let words = ["events", "stat", "-e", "sched:sched_process_fork,task-clock", "--json", "--pid", &pid];
    let mut child = start_in(Path::new("/"), &words);
    testkit::until("it counts or is refused", || {
        testkit::waits_for_events(child.id(), 2) || child.try_wait().unwrap().is_some()
    });
    let mut input = target.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"go\n").unwrap();
    drop(input);
    target.wait().unwrap();
    let output = child.wait_with_output().unwrap();
    if stderr(&output).contains("needs cap_perfmon") || stderr(&output).contains("tracefs") {
        testkit::skip!("{}", stderr(&output));
    }
    assert_status(&output, 0);
    assert_eq!(value(&lines(&stdout(&output)), "sched:sched_process_fork"), 3);
}

#[test]
fn intervals_follow_each_other_and_a_signal_ends_the_last() {
    let words = ["events", "stat", "-e", "task-clock,page-faults", "--json", "-a", "-I", "200ms"];
    let mut child = start_in(Path::new("/"), &words);
    let (mut output, mut text, mut lines) = (BufReader::new(child.stdout.take().unwrap()), String::new(), 0);
    // Two events in each interval.
    while lines < 10 && output.read_line(&mut text).unwrap() > 0 {
        lines += 1;
    }
    if lines == 0 {
        testkit::skip!("{}", stderr(&child.wait_with_output().unwrap()));
    }
    signal(&child, "INT");
    output.read_to_string(&mut text).unwrap();
    assert_status(&child.wait_with_output().unwrap(), 0);
    let lines = self::lines(&text);
    let clocks: Vec<&Value> = lines.iter().filter(|line| line["event"] == "task-clock").collect();
    assert!(clocks.len() > 5, "{lines:?}");
    let seconds = |line: &Value, key: &str| line[key].as_f64().unwrap();
    assert_eq!(seconds(clocks[0], "from_s"), 0.0);
    for pair in clocks.windows(2) {
        assert_eq!(seconds(pair[0], "to_s"), seconds(pair[1], "from_s"));
    }
    // It may wait for a CPU between its clock and the counters: that counts in one interval or in the next.
    let (cpus, last) = (std::thread::available_parallelism().unwrap().get() as f64, clocks.len() - 1);
    let ns: f64 = clocks.iter().map(|line| line["value"].as_f64().unwrap()).sum();
    let rate = ns / 1e9 / seconds(clocks[last], "to_s");
    assert!((0.5 * cpus..1.5 * cpus).contains(&rate), "{rate} of {cpus} CPUs: {lines:?}");
    assert!(clocks[1..last].iter().all(|line| line["value"].as_u64() > Some(0)), "{lines:?}");
}

#[test]
fn a_command_that_gets_the_same_signal_has_time_to_end() {
    let script = "trap 'exit 9' INT; echo ready; while :; do sleep 0.01; done";
    let words = ["events", "stat", "-e", "task-clock", "--", "sh", "-c", script];
    let mut child = start_in(Path::new("/"), &words);
    let mut line = [0; 6];
    if std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).is_err() {
        testkit::skip!("{}", stderr(&child.wait_with_output().unwrap()));
    }
    let of_thread = |tid: &str| {
        std::fs::read_to_string(format!("/proc/{}/task/{tid}/children", child.id())).unwrap_or_default()
    };
    let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().flatten();
    let all: String = threads.map(|thread| of_thread(thread.file_name().to_str().unwrap())).collect();
    let shell = all.split_whitespace().next().unwrap();
    // Without a pause that a busy machine makes long.
    for pid in [child.id(), shell.parse().unwrap()] {
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::INT).unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert_status(&output, 9);
    assert!(stderr(&output).contains("task-clock"), "{}", stderr(&output));
}

#[test]
fn without_events_the_usual_ones_are_counted_into_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("counts");
    let Some(output) = stat(&["-o", path.to_str().unwrap(), "--", "/bin/echo", "hello"]) else { return };
    assert_status(&output, 0);
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("hello\n", ""));
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("/bin/echo hello, 0.000 s to "), "{text}");
    for event in ["task-clock", "context-switches", "cpu-migrations", "page-faults"] {
        assert!(text.contains(event), "{text}");
    }
    assert!(!text.contains("not on this machine"), "nobody asked for what is not here: {text}");
}

#[test]
fn what_cannot_be_counted_is_said() {
    let Some(output) = stat(&["-e", "task-clock,LLC-prefetches,page-faults", "-d", "100ms"]) else { return };
    let has_no_pmu = stdout(&run(&["events", "list", "LLC-prefetches"])).contains("not on this machine");
    assert_status(&output, 0);
    assert_eq!(stdout(&output).contains("not on this machine"), has_no_pmu, "{}", stdout(&output));
    for (words, status, said) in [
        (vec!["-e", "task-clock,no-such-event"], 2, "no-such-event"),
        (vec!["-e", "sched:sched_switch period=5"], 2, "no period"),
        (vec!["-d", "0s"], 2, "--duration"),
        (vec!["-I", "10us"], 2, "too short"),
        (vec!["-e", "sched:no_such"], 1, "sched:no_such"),
        (vec!["--pid", "4194303"], 1, "no such process"),
        (vec!["--cgroup", "no-such-cgroup"], 1, "no-such-cgroup"),
        (vec!["-e", "task-clock", "-o", "/no/such/file"], 1, "/no/such/file"),
        (vec!["--pid", "1", "-a"], 2, "cannot be used with"),
        (vec!["--", "/no/such/program"], 127, "/no/such/program"),
        (vec!["--", "/etc/passwd"], 126, "/etc/passwd"),
    ] {
        let output = run(&[vec!["events", "stat"], words.clone()].concat());
        assert_status(&output, status);
        assert!(stderr(&output).contains(said), "{words:?}: {}", stderr(&output));
    }
}

#[test]
fn a_probe_of_another_file_than_that_of_the_process_is_warned_of() {
    let Some(mut command) = testkit::unshare(&["--mount"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc =
        maps.lines().filter_map(|line| line.split_whitespace().last()).find(|path| path.contains("libc.so"));
    for name in ["lib.so", "other.so"] {
        std::fs::copy(libc.unwrap(), folder.path().join(name)).unwrap();
    }
    let script = "mount --bind other.so lib.so && echo mounted && exec sleep 300";
    command.args(["sh", "-c", script]).current_dir(folder.path()).stdout(Stdio::piped());
    let mut target = testkit::Process::start(&mut command).unwrap();
    assert_eq!(target.first_line(), "mounted");
    let (pid, library) = (target.pid().to_string(), folder.path().join("lib.so"));
    let event = format!("uprobe:{}:malloc", library.display());
    let Some(output) = stat(&["-e", &event, "--pid", &pid, "--duration", "100ms"]) else { return };
    assert_status(&output, 0);
    let text = stderr(&output);
    assert!(text.contains(&format!("process {pid} has another file at this path")), "{text}");
    assert!(text.contains(&format!("/proc/{pid}/root{}", library.display())), "{text}");
    let own = std::process::id().to_string();
    let Some(output) = stat(&["-e", &event, "--pid", &own, "--duration", "100ms"]) else { return };
    assert!(!stderr(&output).contains("another file"), "{}", stderr(&output));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_usdt_probe_whose_sites_differ_in_a_type_is_counted_at_all_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("sites.c"), folder.path().join("sites"));
    std::fs::write(&source, include_str!("usdt_sites.c")).unwrap();
    let compiled = Command::new(testkit::need!("cc")).args(["-O2", "-o"]).arg(&program).arg(&source).status();
    assert!(compiled.unwrap().success());
    let event = format!("usdt:{}:shop:sale", program.display());
    let Some(output) = stat(&["-e", &event, "--json", "--", program.to_str().unwrap(), "40"]) else { return };
    assert_status(&output, 0);
    assert_eq!(stdout(&output), "hits 40 40 40\n");
    assert_eq!(value(&lines(&stderr(&output)), &event), 120);
    let refused = run(&["events", "stat", "-e", &format!("{event} n=arg1"), "--", "true"]);
    assert!(stderr(&refused).contains("arg1 has another type at some of its sites"), "{}", stderr(&refused));
}
