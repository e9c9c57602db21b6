//! `perf-agent events`: lists, formats, and events as they happen, with their exit statuses.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::capture::{assert_status, signal, start_in};
use crate::{run, stderr, stdout};

/// Whether tracepoints can be read here; if not, prints the reason of the skip.
fn has_tracepoints() -> bool {
    let listed = run(&["events", "list", "sched:*"]);
    let has = stdout(&listed).contains("sched:sched_switch");
    if !has {
        testkit::skipped(format_args!("no tracepoints: {}", stderr(&listed)));
    }
    has
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A trace of this process and its children, as JSON lines.
fn trace(words: &[&str], act: impl FnOnce()) -> (Vec<Value>, std::process::Output) {
    let pid = std::process::id().to_string();
    let child = start_in(Path::new("/"), &[&["events", "trace", "--json", "--pid", &pid], words].concat());
    let fds = format!("/proc/{}/fd", child.id());
    let has_events = || {
        let links =
            std::fs::read_dir(&fds).unwrap().filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        links.filter(|link| link.to_string_lossy().contains("perf_event")).count() > 2
    };
    testkit::until("events are open", has_events);
    // They are enabled a moment after they are open.
    std::thread::sleep(std::time::Duration::from_millis(300));
    act();
    signal(&child, "TERM");
    let output = child.wait_with_output().unwrap();
    (lines(&stdout(&output)), output)
}

#[test]
fn the_list_has_all_tracepoints_and_tells_what_works_here() {
    let all = run(&["events", "list"]);
    assert_status(&all, 0);
    assert!(stdout(&all).contains("page-faults") && stdout(&all).contains("L1-dcache-load-misses"));
    if !has_tracepoints() {
        return;
    }
    let array: Vec<Value> = serde_json::from_str(&stdout(&run(&["events", "list", "--json"]))).unwrap();
    let named = |name: &str| array.iter().find(|event| event["name"] == name).unwrap();
    assert_eq!(
        (&named("page-faults")["set"], &named("page-faults")["available"]),
        (&"software".into(), &true.into())
    );
    let tracepoints = array.iter().filter(|event| event["set"] == "tracepoint").count();
    let listed = std::fs::read_to_string("/sys/kernel/tracing/available_events").unwrap();
    assert_eq!(tracepoints, listed.lines().count());
    assert_eq!(stdout(&run(&["events", "list", "sched:sched_switc?"])).lines().count(), 1);
}

#[test]
fn a_format_has_the_fields_of_the_tracepoint() {
    if !has_tracepoints() {
        return;
    }
    let text = stdout(&run(&["events", "format", "sched:sched_switch"]));
    assert!(text.lines().any(|line| line.contains("next_comm") && line.contains("char[16]")), "{text}");
    let format: Value =
        serde_json::from_str(&stdout(&run(&["events", "format", "tp:sched:sched_switch", "--json"])))
            .unwrap();
    let field =
        format["fields"].as_array().unwrap().iter().find(|field| field["name"] == "next_pid").unwrap();
    assert_eq!(
        (&field["kind"], &field["size"], &field["common"]),
        (&"integer".into(), &4.into(), &false.into())
    );
    let missing = run(&["events", "format", "sched:sched_swich"]);
    assert_status(&missing, 1);
    assert!(stderr(&missing).contains("sched_swich"));
}

#[test]
fn each_event_of_a_process_and_its_children_is_a_line() {
    if !has_tracepoints() {
        return;
    }
    let words = [
        "-e",
        "sched:sched_process_exec",
        "--filter",
        "filename ~ \"/bin/tru*\"",
        "-e",
        "sched:sched_process_exit",
    ];
    let (lines, output) = trace(&words, || {
        for _ in 0..5 {
            assert!(Command::new("/bin/true").status().unwrap().success());
            assert!(
                Command::new("/bin/echo").stdout(std::process::Stdio::null()).status().unwrap().success()
            );
        }
    });
    assert_status(&output, 0);
    let of = |name: &str| lines.iter().filter(|line| line["event"] == name).collect::<Vec<_>>();
    let execs = of("sched:sched_process_exec");
    assert_eq!(execs.len(), 5, "{lines:?}");
    for exec in &execs {
        assert_eq!(
            (&exec["fields"]["filename"], &exec["comm"]),
            (&"/bin/true".into(), &"true".into()),
            "{exec}"
        );
    }
    let exits = of("sched:sched_process_exit");
    assert!(exits.iter().filter(|exit| exit["comm"] == "echo").count() == 5, "{exits:?}");
    let times: Vec<u64> = lines.iter().filter_map(|line| line["time_ns"].as_u64()).collect();
    assert!(times.is_sorted());
    let totals = &lines.last().unwrap()["totals"]["sched:sched_process_exec"];
    assert_eq!((&totals["delivered"], &totals["lost"]), (&5.into(), &0.into()), "{lines:?}");
}

#[test]
fn a_trace_ends_by_number_by_time_and_with_its_processes() {
    if !has_tracepoints() {
        return;
    }
    let traced = run(&["events", "trace", "-e", "raw_syscalls:sys_enter", "--max-events", "7", "--json"]);
    assert_status(&traced, 0);
    assert_eq!(lines(&stdout(&traced)).len(), 8, "{}", stdout(&traced));
    let silent =
        run(&["events", "trace", "-e", "sched:sched_switch", "--filter", "prev_prio > 4000", "-d", "300ms"]);
    assert_status(&silent, 0);
    assert!(stdout(&silent).is_empty() && stderr(&silent).contains("sched:sched_switch: 0 seen, 0 lost"));
    let mut sleeper = Command::new("sleep").arg("1").spawn().unwrap();
    let ended = run(&["events", "trace", "-e", "sched:sched_switch", "--pid", &sleeper.id().to_string()]);
    assert_status(&ended, 0);
    sleeper.wait().unwrap();
}

#[test]
fn what_cannot_be_traced_is_told_with_its_status() {
    let rejected = |words: &[&str], told: &str| {
        let output = run(&[&["events"], words].concat());
        assert_status(&output, 2);
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
    };
    rejected(&[], "events needs a word");
    rejected(&["trace"], "-e");
    rejected(&["trace", "-e", "nonsense"], "no such event");
    rejected(&["trace", "-e", "kprobe:do_sys_open"], "no kprobe");
    rejected(&["trace", "--filter", "a", "-e", "page-faults"], "there is none");
    rejected(&["trace", "-e", "page-faults", "--duration", "soon"], "--duration");
    let failed = |words: &[&str], told: &str| {
        let output = run(&[&["events", "trace", "-e"], words].concat());
        assert_status(&output, 1);
        assert!(
            stderr(&output).contains(told) && !stderr(&output).contains("os error"),
            "{}",
            stderr(&output)
        );
    };
    failed(&["page-faults", "--pid", "4194304"], "there is no such process");
    if !has_tracepoints() {
        return;
    }
    failed(&["sched:no_such_event"], "no_such_event");
    failed(&["sched:sched_switch", "--filter", "no_field == 1"], "does not understand it");
    failed(&["minor-faults", "-e", "minor-faults"], "registered already");
}
