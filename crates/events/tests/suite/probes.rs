//! Probes of programs and of the kernel: counts, values, and what is left.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use events::monitor::{
    Body, EventRequest, MonitorBuilder, MonitorError, Probe, Source, Tracefs, Value, parse_event,
    remove_stale,
};

use crate::permitted::permitted_probe;

/// Waits for a line, then calls `work` as often as its argument says, and exits. A USDT probe fires only while someone uses it. With a second
/// argument a child does the work.
const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/wait.h>
__attribute__((section(".probes"), used)) volatile unsigned short work_semaphore = 0;
int many = 0;
#define NOTE(ARGS) asm volatile("990: nop\n.pushsection .note.stapsdt,\"?\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n" \
    "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n.8byte 0\n.8byte work_semaphore\n" \
    ".asciz \"app\"\n.asciz \"work\"\n.asciz \"" ARGS "\"\n994: .balign 4\n.popsection\n" :: "D"(n), "b"(n * 3));
__attribute__((noinline, noclone)) long work(long n, const char *text, const int *numbers) {
    if (work_semaphore) { if (n % 2) { NOTE("8@%%rdi -4@%%ebx 4@$7 -4@many(%%rip)") } else { NOTE("8@%%rdi -4@%%ebx 4@$8 -4@many(%%rip)") } }
    return n * 2 + numbers[0] + text[0] - 'a';
}
int main(int argc, char **argv) {
    char line[64]; char text[16];
    if (!fgets(line, sizeof line, stdin)) return 1;
    if (argc > 2) { int child = fork(); if (child) { int status; waitpid(child, &status, 0); return 0; } }
    long count = atol(argv[1]), sum = 0;
    for (long n = 0; n < count; n++) {
        int numbers[3] = { 0, (int)-n, 7 };
        snprintf(text, sizeof text, "a%ld", n % 10);
        asm volatile("" :: "r"(numbers) : "memory");
        many = n + 100;
        sum += work(n, text, numbers);
    }
    return sum == 1;
}
"#;

/// `None` without a compiler: then the reason of the skip is printed.
fn compiled(folder: &Path, name: &str, options: &[&str]) -> Option<PathBuf> {
    let cc = testkit::needed("cc")?;
    let (input, output) = (folder.join("program.c"), folder.join(name));
    fs::write(&input, SOURCE).unwrap();
    let done =
        Command::new(cc).args(["-O2", "-w", "-o"]).arg(&output).arg(&input).args(options).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(output)
}

/// The program, waiting for its line.
struct Target(Child);

impl Target {
    fn start(path: &Path, calls: i64, more: &[&str]) -> Self {
        let mut command = Command::new(path);
        Self(command.arg(calls.to_string()).args(more).stdin(Stdio::piped()).spawn().unwrap())
    }

    fn source(&self) -> Source {
        Source::Pid(self.0.id())
    }

    fn go(&mut self) {
        self.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// Definitions of this process that contain a text; other tests make others.
fn own_definitions(with: &str) -> Vec<String> {
    let tracefs = Tracefs::find(None).unwrap();
    let list = fs::read_to_string(tracefs.root().join("uprobe_events")).unwrap_or_default();
    let own = format!("_{}_", std::process::id());
    list.lines()
        .filter(|line| line.contains("perf_agent/") && line.contains(&own) && line.contains(with))
        .map(str::to_owned)
        .collect()
}

fn number(value: Option<Value<'_>>) -> i64 {
    match value {
        Some(Value::Signed(number)) => number,
        Some(Value::Unsigned(number)) => number.try_into().unwrap(),
        other => panic!("{other:?}"),
    }
}

/// What came of one event: its values in order, and how many were lost.
#[derive(Default)]
struct Seen {
    values: Vec<(i64, i64)>,
    lost: u64,
}

/// Runs until the target has ended.
fn collect(
    monitor: &events::monitor::EventMonitor,
    target: &mut Target,
    mut value: impl FnMut(&events::monitor::Fields<'_>) -> (i64, i64) + Send,
) -> BTreeMap<u64, Seen> {
    let mut seen: BTreeMap<u64, Seen> = BTreeMap::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            testkit::until("the monitor runs", || monitor.is_running());
            target.go();
        });
        monitor
            .run(|item| {
                let Some(event) = item.event else { return };
                let seen = seen.entry(event.0).or_default();
                match &item.body {
                    Body::Event(fields) => seen.values.push(value(fields)),
                    Body::Lost(count) => seen.lost += count,
                    _ => {}
                }
            })
            .unwrap();
    });
    seen
}

#[test]
#[cfg(target_arch = "x86_64")]
fn calls_and_returns_are_all_counted_with_their_values_however_the_program_is_linked() {
    let folder = tempfile::tempdir().unwrap();
    for (name, options, calls) in [
        ("pie", &["-pie", "-fPIE"][..], 30_000),
        ("fixed", &["-no-pie", "-fno-pie"], 5_000),
        ("apart", &["-no-pie", "-fno-pie", "-Wl,-Ttext=0x7654000"], 5_000),
        ("stripped", &["-pie", "-fPIE", "-rdynamic", "-s"], 5_000),
        ("with blanks", &["-pie", "-fPIE", "-fcf-protection=full"], 5_000),
    ] {
        let Some(path) = compiled(folder.path(), name, options) else {
            return;
        };
        let mut target = Target::start(&path, calls, &[]);
        let built = MonitorBuilder::default().source(target.source()).ring_pages(1024).build();
        let monitor = permitted_probe!(built);
        let call = Probe::uprobe(&path, "work").args("n=%di:s64 text=+0(%si):string list=+0(%dx):s32[3]");
        let call = permitted_probe!(monitor.register(EventRequest::probe(call)));
        let ret = Probe::uprobe(&path, "work").ret().args("value=$retval:s64");
        let ret = monitor.register(EventRequest::probe(ret)).unwrap();
        let seen = collect(&monitor, &mut target, |fields| {
            if let Some(value) = fields.get("value") {
                assert!(number(fields.get("__probe_ip")) != 0);
                return (number(Some(value)), 0);
            }
            let n = number(fields.get("n"));
            let Some(Value::Text { text, .. }) = fields.get("text") else { panic!("no text") };
            assert_eq!(text, format!("a{}", n % 10).as_bytes());
            let Some(Value::Array(list)) = fields.get("list") else { panic!("no list") };
            assert_eq!(list.iter().map(|element| number(Some(element))).collect::<Vec<_>>(), [0, -n, 7]);
            (n, number(fields.get("__probe_ip")))
        });
        let (calls_seen, returns) = (&seen[&call.0], &seen[&ret.0]);
        let all = calls.unsigned_abs();
        println!(
            "{name}: {} calls, {} lost, {} returns, {} lost",
            calls_seen.values.len(),
            calls_seen.lost,
            returns.values.len(),
            returns.lost
        );
        for (seen, factor) in [(calls_seen, 1), (returns, 2)] {
            assert_eq!(seen.values.len() as u64 + seen.lost, all, "{name}: seen and lost are what happened");
            assert!(seen.values.windows(2).all(|pair| pair[0].0 < pair[1].0), "{name}: each once, in order");
            assert!(seen.values.iter().all(|(value, _)| *value < calls * factor && value % factor == 0));
        }
        if calls_seen.lost == 0 {
            assert!((0..calls).eq(calls_seen.values.iter().map(|(n, _)| *n)), "{name}");
        }
        assert!(calls_seen.values.iter().all(|(_, ip)| *ip == calls_seen.values[0].1), "one place");
        monitor.close(true).unwrap();
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn filters_on_arguments_and_children_work_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = compiled(folder.path(), "program", &[]) else {
        return;
    };
    let mut target = Target::start(&path, 1000, &["in a child"]);
    let monitor = permitted_probe!(MonitorBuilder::default().source(target.source()).build());
    let text = format!("uprobe:{}:work n=%di:s64 period=1", path.display());
    let few = permitted_probe!(monitor.register(parse_event(&text).unwrap().filter("n >= 10 && n < 15")));
    let plain = monitor.register(parse_event(&format!("uprobe:{}:work", path.display())).unwrap()).unwrap();
    let left = || own_definitions(path.to_str().unwrap());
    assert!(left().len() == 2 && left()[0].contains("n=%di:s64"), "{:?}", left());
    let seen = collect(&monitor, &mut target, |fields| (fields.get("n").map_or(-1, |n| number(Some(n))), 0));
    let values: Vec<i64> = seen[&few.0].values.iter().map(|(n, _)| *n).collect();
    assert_eq!(values, [10, 11, 12, 13, 14]);
    assert_eq!(seen[&plain.0].values.len(), 1000);
    monitor.unregister(few).unwrap();
    assert_eq!(left().len(), 1);
    monitor.close(true).unwrap();
    assert!(left().is_empty(), "{:?}", left());
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_probe_without_arguments_needs_no_definition_for_the_whole_system() {
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = compiled(folder.path(), "program", &[]) else {
        return;
    };
    if !Path::new("/sys/bus/event_source/devices/uprobe").exists() {
        return testkit::skipped("the kernel has no event source for probes");
    }
    let monitor = permitted_probe!(MonitorBuilder::default().ring_pages(512).build());
    let call = permitted_probe!(monitor.register(EventRequest::probe(Probe::uprobe(&path, "work"))));
    assert!(own_definitions(path.to_str().unwrap()).is_empty());
    // A filter on a field needs a definition; one that is refused changes nothing.
    monitor.set_filter(call, "no_field == 1").unwrap_err();
    assert!(own_definitions(path.to_str().unwrap()).is_empty());
    monitor.set_filter(call, "__probe_ip != 0").unwrap();
    assert_eq!(own_definitions(path.to_str().unwrap()).len(), 1);
    // The function returns at several places.
    let ret = monitor.register(EventRequest::probe(Probe::uprobe(&path, "work").ret())).unwrap();
    let mut target = Target::start(&path, 3000, &[]);
    let pid = target.0.id();
    let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            testkit::until("the monitor runs", || monitor.is_running());
            target.go();
            target.0.wait().unwrap();
            monitor.stop(false).unwrap();
        });
        let ran = monitor.run(|item| {
            if let (Some(event), Body::Event(fields)) = (item.event, &item.body) {
                assert_eq!(item.meta.id.pid, Some(pid));
                let field = "__probe_ip";
                assert!(number(fields.get(field)) != 0);
                *seen.entry(event.0).or_default() += 1;
            }
        });
        ran.unwrap();
    });
    assert_eq!(seen, BTreeMap::from([(call.0, 3000), (ret.0, 3000)]));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_usdt_probe_is_one_event_of_all_its_sites_and_raises_its_counter() {
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = compiled(folder.path(), "program", &["-pie", "-fPIE"]) else {
        return;
    };
    let mut target = Target::start(&path, 500, &[]);
    let monitor = permitted_probe!(MonitorBuilder::default().source(target.source()).build());
    let all = permitted_probe!(monitor.register(EventRequest::probe(Probe::usdt(&path, "app", "work"))));
    let chosen = parse_event(&format!("usdt:{}:app:work thrice=arg2", path.display())).unwrap();
    let chosen = monitor.register(chosen).unwrap();
    let seen = collect(&monitor, &mut target, |fields| match fields.get("thrice") {
        Some(value) => (number(Some(value)), 0),
        None => {
            let n = number(fields.get("arg1"));
            assert_eq!(number(fields.get("arg4")), n + 100, "a variable of the program");
            assert_eq!(
                (number(fields.get("arg2")), number(fields.get("arg3"))),
                (n * 3, if n % 2 == 1 { 7 } else { 8 })
            );
            (n, 0)
        }
    });
    assert!((0..500).eq(seen[&all.0].values.iter().map(|(n, _)| *n)), "{:?}", seen[&all.0].values.len());
    assert!((0..500).map(|n| n * 3).eq(seen[&chosen.0].values.iter().map(|(n, _)| *n)));
    for (arguments, wanted) in [("x=arg5", "it has 4 arguments"), ("x=%di", "arg1, arg2"), ("x", "NAME=argN")]
    {
        let probe = Probe::usdt(&path, "app", "work").args(arguments);
        let error = monitor.register(EventRequest::probe(probe)).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    let error = monitor.register(EventRequest::probe(Probe::usdt(&path, "app", "idle"))).unwrap_err();
    assert!(error.to_string().contains("app:work"), "{error}");
}

#[test]
fn errors_say_what_the_kernel_says_and_leave_nothing() {
    let exe = std::env::current_exe().unwrap();
    let monitor = permitted_probe!(MonitorBuilder::default().source(Source::Pid(std::process::id())).build());
    let register = |probe: Probe| monitor.register(EventRequest::probe(probe));
    let error = match register(Probe::uprobe(&exe, "main").args("wrong=%di:s65")) {
        Err(error) if error.is_permission() || matches!(error, MonitorError::NoProbes { .. }) => {
            testkit::skip!("{error}")
        }
        other => other.unwrap_err().to_string(),
    };
    assert!(error.contains("s65") || error.contains("type"), "{error}");
    let error = register(Probe::uprobe(&exe, "mian")).unwrap_err().to_string();
    assert!(error.contains("mian") && error.contains("main"), "{error}");
    let error = register(Probe::uprobe(&exe, "main").args("a=%di\n-:x/y")).unwrap_err().to_string();
    assert!(error.contains("'\\n'"), "{error}");
    let error = register(Probe::uprobe("/etc/passwd", "main")).unwrap_err();
    assert!(matches!(error, MonitorError::Target(_)), "{error}");
    assert!(own_definitions("wrong=").is_empty());
}

#[test]
fn functions_of_the_kernel_are_probed_or_refused_with_what_is_missing() {
    let tracefs = permitted_probe!(Tracefs::find(None));
    let monitor = permitted_probe!(MonitorBuilder::default().source(Source::Pid(std::process::id())).build());
    let registered = monitor.register(EventRequest::probe(Probe::kprobe("do_exit")));
    if tracefs.root().join("kprobe_events").exists() {
        permitted_probe!(registered);
        let error = monitor.register(EventRequest::probe(Probe::kprobe("no_such_function"))).unwrap_err();
        assert!(error.to_string().contains("no_such_function"), "{error}");
        return;
    }
    let error = registered.unwrap_err();
    assert!(matches!(error, MonitorError::NoProbes { .. }), "{error}");
    assert!(
        error.to_string().contains("CONFIG_KPROBE_EVENTS") && error.to_string().contains("kprobe:do_exit"),
        "{error}"
    );
}

#[test]
fn only_what_dead_processes_have_left_is_removed() {
    let tracefs = permitted_probe!(Tracefs::find(None));
    let list = tracefs.root().join("uprobe_events");
    let define = |line: &str| {
        OpenOptions::new().append(true).open(&list).and_then(|mut file| file.write_all(line.as_bytes()))
    };
    let exe = std::env::current_exe().unwrap();
    let entry = 0x1000;
    let pid = std::process::id();
    // A number that no process can have now, and the living one with another start.
    let dead = [format!("perf_agent/uprobe_4194304_77_{pid}"), format!("perf_agent/usdt_{pid}_1_0")];
    let kept = [format!("prb_test/uprobe_4194304_77_{pid}"), format!("perf_agent/other_{pid}")];
    let definition = |name: &String| format!("p:{name} {}:{entry:#x}\n", exe.display());
    for name in dead.iter().chain(&kept) {
        if let Err(error) = define(&definition(name)) {
            testkit::skip!("probes cannot be defined here: {error}");
        }
    }
    let removed = remove_stale(&tracefs);
    let left = fs::read_to_string(&list).unwrap();
    for name in &kept {
        define(&format!("-:{name}\n")).unwrap();
    }
    let removed = removed.unwrap();
    for name in &dead {
        assert!(!left.contains(name.as_str()), "{name} is left");
        // Another test's monitor may have been faster.
        assert!(removed.contains(&name.replace('/', ":")) || removed.len() < 2);
    }
    for name in &kept {
        assert!(left.contains(name.as_str()), "{name} is gone");
    }
}
