//! The same occurrences in `perf-agent events trace` and in `perf script`: as many of each tracepoint on each thread, with the same values.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use testkit::waits_for_events;

use crate::capture::{assert_status, start_in};
use crate::{stderr, stdout};

const TRACEPOINTS: [&str; 21] = [
    "syscalls:sys_enter_openat",
    "syscalls:sys_exit_openat",
    "syscalls:sys_enter_read",
    "syscalls:sys_exit_read",
    "syscalls:sys_enter_mmap",
    "syscalls:sys_enter_mprotect",
    "syscalls:sys_enter_close",
    "syscalls:sys_enter_execve",
    "raw_syscalls:sys_enter",
    "raw_syscalls:sys_exit",
    "sched:sched_process_fork",
    "sched:sched_process_exec",
    "sched:sched_process_exit",
    "sched:sched_wakeup_new",
    "sched:sched_switch",
    "task:task_newtask",
    "task:task_rename",
    "signal:signal_generate",
    "signal:signal_deliver",
    "exceptions:page_fault_user",
    "kmem:mm_page_alloc",
];

/// Waits for a line, and then starts programs, reads files, sends signals.
const WORK: &str = "read line\nfor i in 1 2 3; do /bin/true; cat /etc/hostname > /dev/null; done\n\
                    sh -c 'trap : USR1; kill -USR1 $$'\necho x | cat > /dev/null\n";

/// What one tool tells of an occurrence: values by field.
type Values = BTreeMap<String, String>;
/// By thread and tracepoint, in order.
type Told = BTreeMap<(u32, String), Vec<Values>>;

fn ours(text: &str) -> Told {
    let mut told = Told::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["lost"].is_null(), "{line}");
        let Some(event) = line["event"].as_str() else { continue };
        let value = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let fields = line["fields"].as_object().unwrap().iter();
        let values = fields.map(|(name, field)| (name.clone(), value(field))).collect();
        let tid = u32::try_from(line["tid"].as_u64().unwrap()).unwrap();
        told.entry((tid, event.to_owned())).or_default().push(values);
    }
    told
}

/// `comm tid group:name: fields`, where the fields are `a=1 b=2`, `a: 1, b: 2`, `NR 1 …` or a value alone.
fn theirs(text: &str) -> Told {
    let mut told = Told::new();
    for line in text.lines() {
        let Some((head, fields)) = TRACEPOINTS.iter().find_map(|name| {
            line.split_once(&format!(" {name}: ")).map(|(head, fields)| ((head, *name), fields))
        }) else {
            continue;
        };
        let tid = head.0.split_whitespace().last().unwrap().parse().unwrap();
        let mut values = Values::new();
        let words: Vec<&str> = fields.split_whitespace().collect();
        for (at, word) in words.iter().enumerate() {
            let word = word.trim_end_matches(',');
            if let Some((name, value)) = word.split_once('=') {
                // Names of threads may have blanks.
                let is_rest = |word: &&&str| name.ends_with("comm") && !word.contains('=') && **word != "==>";
                let rest = words[at + 1..].iter().take_while(is_rest).copied();
                values.insert(
                    name.to_owned(),
                    std::iter::once(value).chain(rest).collect::<Vec<_>>().join(" "),
                );
            } else if let Some((name, value)) = word.strip_suffix(':').zip(words.get(at + 1)) {
                values.insert(name.to_owned(), value.trim_end_matches(',').to_owned());
            } else if let ("NR", Some(number)) = (word, words.get(at + 1)) {
                values.insert("id".to_owned(), (*number).to_owned());
            } else if words.len() == 1 {
                values.insert("ret".to_owned(), word.to_owned());
            }
        }
        told.entry((tid, head.1.to_owned())).or_default().push(values);
    }
    told
}

/// Whether both texts are the same value; none if perf has words for a number.
fn is_same(ours: &str, theirs: &str) -> Option<bool> {
    if ours == theirs {
        return Some(true);
    }
    let Ok(number) = ours.parse::<i128>() else { return Some(false) };
    let decimal = theirs.parse::<i128>().ok();
    let has_digit = theirs.contains(|letter: char| letter.is_ascii_digit());
    let hexadecimal = i128::from_str_radix(theirs.trim_start_matches("0x"), 16).ok().filter(|_| has_digit);
    if decimal.is_none() && hexadecimal.is_none() {
        return None;
    }
    // perf prints some as hexadecimal numbers of 32 or 64 bits, with and without 0x.
    let wraps = [number, number & 0xffff_ffff, number & 0xffff_ffff_ffff_ffff];
    Some(wraps.iter().any(|wrapped| Some(*wrapped) == decimal || Some(*wrapped) == hexadecimal))
}

#[test]
fn perf_sees_the_same_values() {
    testkit::need!("perf");
    let folder = tempfile::tempdir().unwrap();
    let mut target = Command::new("sh").args(["-c", WORK]).stdin(Stdio::piped()).spawn().unwrap();
    let pid = target.id().to_string();
    let end = |target: &mut Child| {
        drop(target.stdin.take());
        target.wait().unwrap();
    };
    let data = folder.path().join("perf.data");
    let mut perf = testkit::perf(folder.path())
        .args(["record", "-q", "-m", "1024", "-e", &TRACEPOINTS.join(","), "-p", &pid, "-o"])
        .arg(&data)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let words = TRACEPOINTS.iter().flat_map(|name| ["-e", name]);
    let words: Vec<&str> = ["events", "trace", "--json", "--ring-pages", "1024", "--pid", &pid]
        .into_iter()
        .chain(words)
        .collect();
    let mut agent = start_in(Path::new("/"), &words);
    let ended = |child: &mut Child| child.try_wait().unwrap().is_some();
    let mut early = false;
    testkit::until("both have begun, or one is refused", || {
        early = ended(&mut perf) || ended(&mut agent);
        early || [&perf, &agent].iter().all(|child| waits_for_events(child.id(), TRACEPOINTS.len()))
    });
    target.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    end(&mut target);
    let perf = perf.wait_with_output().unwrap();
    let agent = agent.wait_with_output().unwrap();
    if early {
        testkit::skip!("not permitted here: {}{}", stderr(&perf), stderr(&agent));
    }
    assert_status(&agent, 0);
    let script = testkit::perf(folder.path())
        .args(["script", "-F", "comm,tid,event,trace", "-i"])
        .arg(&data)
        .output()
        .unwrap();
    assert!(!stderr(&script).contains("lost"), "{}", stderr(&script));
    let (ours, theirs) = (ours(&stdout(&agent)), theirs(&stdout(&script)));
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
    let mut compared: BTreeMap<&str, u64> = BTreeMap::new();
    for ((tid, event), ours) in &ours {
        let theirs = &theirs[&(*tid, event.clone())];
        assert_eq!(ours.len(), theirs.len(), "{event} of thread {tid}");
        for (ours, theirs) in ours.iter().zip(theirs) {
            for (field, theirs) in theirs {
                let Some(ours) = ours.get(field) else { continue };
                match is_same(ours, theirs) {
                    Some(same) => {
                        assert!(same, "{event} of thread {tid}: {field} is {ours}, for perf {theirs}")
                    }
                    None => continue,
                }
                *compared.entry(event).or_default() += 1;
            }
        }
    }
    let all: Vec<&str> = compared.keys().copied().collect();
    assert_eq!(all.len(), TRACEPOINTS.len(), "{compared:?}");
    assert!(compared.values().sum::<u64>() > 1000, "{compared:?}");
}
