//! `perf-agent events`: lists, formats, and events as they happen, with their exit statuses.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::Process;

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

/// A trace of a shell that runs this, and of its children, as JSON lines: other tests of this process start programs too.
fn trace(words: &[&str], script: &str) -> (Vec<Value>, std::process::Output) {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("read line; {script}")]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut shell = Process::start(&mut shell).unwrap();
    let pid = shell.pid().to_string();
    let child = start_in(Path::new("/"), &[&["events", "trace", "--json", "--pid", &pid], words].concat());
    testkit::until("the trace has begun", || testkit::waits_for_events(child.id(), 1));
    drop(shell.stdin.take());
    shell.wait().unwrap();
    let output = child.wait_with_output().unwrap();
    (lines(&stdout(&output)), output)
}

#[test]
fn the_list_has_all_tracepoints_and_tells_what_works_here() {
    let all = run(&["events", "list"]);
    assert_status(&all, 0);
    for event in ["page-faults", "L1-dcache-load-misses"] {
        assert!(stdout(&all).contains(event), "{event} is missing: {}", stdout(&all));
    }
    if !has_tracepoints() {
        return;
    }
    // Other tests define probes meanwhile, so the list lies between what exists before and after.
    let available = || -> BTreeSet<String> {
        let listed = std::fs::read_to_string("/sys/kernel/tracing/available_events").unwrap();
        listed.lines().map(str::to_owned).collect()
    };
    let before = available();
    let array: Vec<Value> = serde_json::from_str(&stdout(&run(&["events", "list", "--json"]))).unwrap();
    let after = available();
    let named = |name: &str| array.iter().find(|event| event["name"] == name).unwrap();
    assert_eq!(
        (&named("page-faults")["set"], &named("page-faults")["available"]),
        (&"software".into(), &true.into())
    );
    let tracepoints = array.iter().filter(|event| event["set"] == "tracepoint");
    let shown: Vec<String> =
        tracepoints.filter_map(|event| Some(event["name"].as_str()?.to_owned())).collect();
    let once: BTreeSet<String> = shown.iter().cloned().collect();
    assert_eq!(once.len(), shown.len(), "each once");
    assert!(before.intersection(&after).all(|name| once.contains(name)), "{shown:?}");
    assert!(once.iter().all(|name| before.contains(name) || after.contains(name)), "{shown:?}");
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
    assert!(stderr(&missing).contains("sched_swich"), "{}", stderr(&missing));
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
    let (lines, output) = trace(&words, "for i in 1 2 3 4 5; do /bin/true; /bin/echo; done; exit 0");
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
    // A busy machine adds lines of losses.
    let seen = lines(&stdout(&traced)).iter().filter(|line| line.get("fields").is_some()).count();
    assert_eq!(seen, 7, "{}", stdout(&traced));
    let silent =
        run(&["events", "trace", "-e", "sched:sched_switch", "--filter", "prev_prio > 4000", "-d", "300ms"]);
    assert_status(&silent, 0);
    assert_eq!(stdout(&silent), "");
    assert!(stderr(&silent).contains("sched:sched_switch: 0 seen, 0 lost"), "{}", stderr(&silent));
    let sleeper = Process::asleep();
    let words = ["events", "trace", "-e", "sched:sched_switch", "--pid", &sleeper.pid().to_string()];
    let ended = start_in(Path::new("/"), &words);
    testkit::until("the trace has begun", || testkit::waits_for_events(ended.id(), 1));
    drop(sleeper);
    assert_status(&ended.wait_with_output().unwrap(), 0);
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
    rejected(&["trace", "-e", "uprobe:/bin/sh"], "PATH:SYMBOL");
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
    failed(&["uprobe:/bin/sh:no_such_function"], "no_such_function");
    failed(&["sched:sched_switch", "--filter", "no_field == 1"], "does not understand it");
    failed(&["minor-faults", "-e", "minor-faults"], "registered already");
}

/// A program whose function `work` is called with 0 to 99 and a text, and returns twice the number. `None` where that cannot be probed; then the reason is printed.
fn probed_program(folder: &Path) -> Option<String> {
    let source = r#"
        __attribute__((noinline, noclone)) long work(long n, const char *text) { __asm__ volatile("" :: "r"(text)); return n * 2; }
        int main(int argc, char **argv) { long sum = 0; for (long n = 0; n < 100; n++) sum += work(n, "words of it"); return sum == 1; }"#;
    if !cfg!(target_arch = "x86_64") || !Path::new("/sys/kernel/tracing/uprobe_events").exists() {
        testkit::skipped("this kernel has no probes of programs");
        return None;
    }
    let (input, output) = (folder.join("program.c"), folder.join("program"));
    std::fs::write(&input, source).unwrap();
    let mut cc = Command::new(testkit::needed("cc")?);
    assert!(cc.args(["-O2", "-o"]).arg(&output).arg(&input).status().unwrap().success());
    Some(output.to_str().unwrap().to_owned())
}

fn definitions() -> String {
    std::fs::read_to_string("/sys/kernel/tracing/uprobe_events").unwrap()
}

#[test]
fn calls_and_returns_of_a_program_are_lines_with_their_values() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = probed_program(folder.path()) else { return };
    let call = format!("uprobe:{program}:work n=%di:s64 text=+0(%si):string");
    let ret = format!("uretprobe:{program}:work value=$retval:s64");
    let format: Value = serde_json::from_str(&stdout(&run(&["events", "format", &call, "--json"]))).unwrap();
    let own: Vec<&Value> =
        format["fields"].as_array().unwrap().iter().filter(|field| field["common"] == false).collect();
    let named: Vec<_> =
        own.iter().map(|field| (field["name"].as_str().unwrap(), field["size"].as_u64().unwrap())).collect();
    assert_eq!(named, [("__probe_ip", 8), ("n", 8), ("text", 4)]);
    let (lines, output) = trace(&["-e", &call, "--filter", "n >= 50", "-e", &ret], &program);
    assert_status(&output, 0);
    let of = |name: &str| {
        let lines =
            lines.iter().filter(|line| line["event"].as_str().is_some_and(|event| event.starts_with(name)));
        lines.map(|line| line["fields"].clone()).collect::<Vec<_>>()
    };
    let calls = of("uprobe:");
    let numbers: Vec<i64> = calls.iter().map(|fields| fields["n"].as_i64().unwrap()).collect();
    assert_eq!(numbers, (50..100).collect::<Vec<_>>());
    assert!(calls.iter().all(|fields| fields["text"] == "words of it"), "{calls:?}");
    let values: Vec<i64> = of("uretprobe:").iter().map(|fields| fields["value"].as_i64().unwrap()).collect();
    assert_eq!(values, (0..100).map(|n| n * 2).collect::<Vec<_>>());
    assert!(!definitions().contains(&program), "{}", definitions());
}

/// 300 calls, of which each third throws; and functions that end by jumps.
const THROWER: &str = concat!(
    "#include <cstdlib>\n",
    include_str!("../../../../truth/programs/thrower.cpp"),
    r#"
__attribute__((constructor)) static void wait_for_line() { if (getenv("WAITS")) getchar(); }
extern "C" __attribute__((noinline)) int passes_on(int n) { asm volatile(""); return thrower(n + 1); }
extern "C" __attribute__((noinline)) int leads_anywhere(int n, int (*const *to)(int)) { asm volatile(""); int (*f)(int) = to[n]; asm volatile("" : "+r"(f)); return f(n); }
"#
);

#[test]
fn a_program_that_throws_survives_probes_of_its_returns() {
    let folder = tempfile::tempdir().unwrap();
    if probed_program(folder.path()).is_none() {
        return;
    }
    let Some(compiler) = testkit::needed("g++") else { return };
    let (source, program) = (folder.path().join("thrower.cpp"), folder.path().join("thrower"));
    std::fs::write(&source, THROWER).unwrap();
    let built = Command::new(compiler).args(["-O2", "-o"]).arg(&program).arg(&source).output().unwrap();
    assert!(built.status.success(), "{built:?}");
    let program = program.to_str().unwrap();
    let alone = Command::new(program).output().unwrap();
    let ret = format!("uretprobe:{program}:thrower value=$retval:s32");
    let out = folder.path().join("out");
    let mut target = Command::new(program);
    target.env("WAITS", "1").stdin(Stdio::piped()).stdout(std::fs::File::create(&out).unwrap());
    let mut target = Process::start(&mut target).unwrap();
    let pid = target.pid().to_string();
    let words = ["events", "trace", "--json", "--stacks", "-e", &ret, "--pid", &pid];
    let tracer = start_in(folder.path(), &words);
    testkit::until("the trace has begun", || testkit::waits_for_events(tracer.id(), 1));
    drop(target.stdin.take());
    let status = target.wait().unwrap();
    let output = tracer.wait_with_output().unwrap();
    assert_status(&output, 0);
    assert!(status.success(), "{status}");
    assert_eq!(std::fs::read(&out).unwrap(), alone.stdout);
    let lines = lines(&stdout(&output));
    let events: Vec<&Value> = lines.iter().filter(|line| line["event"].is_string()).collect();
    let values: Vec<i64> = events.iter().map(|event| event["fields"]["value"].as_i64().unwrap()).collect();
    assert_eq!(values, (0..300).filter(|n| n % 3 != 0).collect::<Vec<_>>());
    for event in events {
        assert_eq!(event["stack"][0]["function"], "main", "{event}");
    }
    let plain = format!("uretprobe:{program}:thrower");
    let counted = run(&["events", "stat", "-e", &plain, "--", program]);
    assert_status(&counted, 0);
    let told = format!("{}{}", stdout(&counted), stderr(&counted));
    assert!(told.contains(&format!(" 200  {plain}")), "{told}");
    // A function that ends by a jump is seen there, without the result of the other one.
    assert_status(&run(&["events", "format", &format!("uretprobe:{program}:passes_on")]), 0);
    for (target, reason) in [
        ("passes_on value=$retval:s32", "the function that it leads to has the result"),
        ("leads_anywhere", "may lead anywhere"),
    ] {
        let refused = run(&["events", "trace", "-e", &format!("uretprobe:{program}:{target}")]);
        assert_status(&refused, 1);
        assert!(stderr(&refused).contains(reason), "{target}: {}", stderr(&refused));
    }
}

/// A program without frame pointers that waits for a line and calls `work` from `one` and `two` in turn.
const CALLER: &str = r#"
#include <stdio.h>
struct request { int id; };
__attribute__((noipa)) int work(int n, struct request *request) { asm volatile("" :: "r"(request) : "memory"); return n; }
__attribute__((noipa)) int one(int n, struct request *request) { int got = work(n, request); asm volatile("" ::: "memory"); return got; }
__attribute__((noipa)) int two(int n, struct request *request) { int got = work(n, request); asm volatile("" ::: "memory"); return got; }
int main(void) {
    struct request request;
    if (getchar() == EOF) return 1;
    for (int i = 0; i < 20; i++) { request.id = 100 + i; (i % 2 ? one : two)(i, &request); }
    return 0;
}
"#;

/// What `events trace` with these words says of all calls of that program; none without a compiler or the right to probe.
fn traced_calls(more: &[&str]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    if !cfg!(target_arch = "x86_64") || !Path::new("/sys/kernel/tracing/uprobe_events").exists() {
        testkit::skipped("this kernel has no probes of programs");
        return None;
    }
    let cc = testkit::needed("gcc")?;
    let (source, program) = (folder.path().join("caller.c"), folder.path().join("caller"));
    std::fs::write(&source, CALLER).unwrap();
    let options = ["-O1", "-g", "-fomit-frame-pointer", "-o"];
    assert!(Command::new(cc).args(options).arg(&program).arg(&source).status().unwrap().success());
    let mut target = Command::new(&program);
    let mut target = Process::start(target.stdin(Stdio::piped())).unwrap();
    let event = format!("uprobe:{}:work n=arg:n id=arg:request->id", program.display());
    let pid = target.pid().to_string();
    let words = [&["events", "trace", "-e", &event, "--pid", &pid, "--stacks"], more].concat();
    let mut child = start_in(folder.path(), &words);
    testkit::until("the trace has begun or is refused", || {
        testkit::waits_for_events(child.id(), 1) || child.try_wait().unwrap().is_some()
    });
    std::io::Write::write_all(&mut target.stdin.take().unwrap(), b"go\n").unwrap();
    let output = child.wait_with_output().unwrap();
    if !output.status.success() {
        testkit::skipped(stderr(&output));
        return None;
    }
    Some(stdout(&output))
}

#[test]
fn each_event_carries_its_whole_stack_without_frame_pointers() {
    let Some(text) = traced_calls(&["--json"]) else { return };
    let events: Vec<Value> = lines(&text).into_iter().filter(|line| line["event"].is_string()).collect();
    assert_eq!(events.len(), 20, "{text}");
    for (call, event) in events.iter().enumerate() {
        assert_eq!((&event["fields"]["n"], &event["fields"]["id"]), (&call.into(), &(100 + call).into()));
        let functions: Vec<&str> = event["stack"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|frame| frame["function"].as_str())
            .collect();
        let caller = if call % 2 == 1 { "one" } else { "two" };
        assert!(functions.starts_with(&["work", caller, "main"]), "{functions:?}");
        assert_eq!((functions.last(), &event["cut"]), (Some(&"_start"), &Value::Null), "{functions:?}");
        assert!(event["stack"][2]["file"].as_str().unwrap().ends_with("caller.c"), "{event}");
    }
}

#[test]
fn stacks_are_lines_below_their_event_and_tell_where_they_are_cut() {
    let Some(text) = traced_calls(&[]) else { return };
    let blocks: Vec<&str> = text.split("\n\n").filter(|block| !block.trim().is_empty()).collect();
    assert_eq!(blocks.len(), 20, "{text}");
    assert!(blocks.iter().all(|block| block.lines().nth(3).unwrap().contains(" main (")), "{text}");
    let Some(text) = traced_calls(&["--stack-bytes", "8"]) else { return };
    assert_eq!(text.matches("[cut: the copy of the stack ends here]").count(), 20, "{text}");
}

#[test]
fn what_a_killed_process_leaves_is_cleaned() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = probed_program(folder.path()) else { return };
    let spec = format!("uprobe:{program}:work n=%di:s64");
    let pid = std::process::id().to_string();
    let start = || start_in(Path::new("/"), &["events", "trace", "-e", &spec, "--pid", &pid]);
    let lines = || definitions().lines().filter(|line| line.contains(&program)).count();
    let mut killed = start();
    testkit::until("the probe is defined", || lines() == 1);
    let lives = start();
    testkit::until("another one is defined", || lines() == 2);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let cleaned = run(&["events", "clean"]);
    assert_status(&cleaned, 0);
    assert_eq!(lines(), 1, "that of the living process stays: {}", definitions());
    // The kernel may still close the events of the killed process while another trace begins: then that one has removed it.
    let own = format!("perf_agent:uprobe_{}_", killed.id());
    assert!(stdout(&cleaned).is_empty() || stdout(&cleaned).contains(&own), "{}", stdout(&cleaned));
    signal(&lives, "INT");
    assert_status(&lives.wait_with_output().unwrap(), 0);
    assert_eq!(lines(), 0, "{}", definitions());
}

#[test]
fn a_process_that_ends_soon_has_its_name() {
    if !has_tracepoints() {
        return;
    }
    let script = "i=0; while [ $i -lt 50 ]; do (:) & i=$((i+1)); done; wait";
    let (lines, output) = trace(&["-e", "sched:sched_process_exit"], script);
    let exits: Vec<_> = lines.iter().filter(|line| line["event"] == "sched:sched_process_exit").collect();
    assert!(exits.len() >= 50, "{} {}", exits.len(), stderr(&output));
    assert!(exits.iter().all(|line| line["comm"] == "sh"), "{exits:?}");
}

#[test]
fn where_tracefs_is_not_mounted_it_is_mounted_for_this_process_alone() {
    let Some(mut command) = testkit::unshare(&["--mount"]) else { return };
    if !has_tracepoints() {
        return;
    }
    let script = "umount -a -t tracefs,debugfs; ls -d /sys/kernel/tracing/events /sys/kernel/debug/tracing/events && exit 77
        \"$0\" events list sched:sched_switch && \"$0\" events stat -e sched:sched_switch -- true && exec grep -c tracefs /proc/self/mounts";
    let output = command.args(["sh", "-c", script, env!("CARGO_BIN_EXE_perf-agent")]).output().unwrap();
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines.first().is_some_and(|line| line.contains("sched:sched_switch")),
        "{text} {}",
        stderr(&output)
    );
    assert_eq!(lines.last(), Some(&"0"), "no mount is visible: {text} {}", stderr(&output));
}
