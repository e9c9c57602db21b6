//! Parameters of functions by their names, in programs of a known behaviour that compilers made with and without optimization.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use events::monitor::{ArgumentPlace, Body, MonitorBuilder, MonitorError, Probe, Source, Value, parse_event};
use testkit::Process;

use crate::permitted::permitted_probe;

const CALLS: u64 = 200;

/// Waits for a line, then calls `work` with values that follow from the number of the call.
const SOURCE: &str = r#"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
typedef unsigned short level_t;
enum color { RED = 1, BLUE = 70000 };
struct part { long before; level_t bytes; const char *label; };
struct request {
    int kind;
    union { struct { unsigned low : 5, high : 7; }; unsigned word; };
    struct part *part, own;
    enum color color;
    char name[12];
    float weight;
};
struct wide { long words[3]; };
typedef const struct request *request_t;
__attribute__((noinline, noclone)) long work(int n, request_t request, double scale, bool odd, signed char small,
                                             const char *text, long sixth, long seventh, struct wide wide, long last) {
    asm volatile("" :: "r"(request), "r"(text), "r"(wide.words[2]) : "memory");
    return n + request->kind + (long)scale + odd + small + sixth + seventh + last;
}
/* The second register is the first parameter's: the first has the address of the result. */
__attribute__((noinline, noclone)) struct wide widened(long n) {
    asm volatile("" ::: "memory");
    return (struct wide){{n, n, n}};
}
__attribute__((noinline)) static long helper(long unused, long used) {
    asm volatile("" :: "r"(used) : "memory");
    return used;
}
int main(int argc, char **argv) {
    char line[64], text[16];
    static struct part part;
    static struct request request = { .part = &part };
    long calls = atol(argv[1]), sum = 0;
    if (!fgets(line, sizeof line, stdin)) return 1;
    for (long i = 0; i < calls; i++) {
        struct wide wide = {{i, i, i}};
        request.kind = -i;
        request.low = i % 32;
        request.high = i % 128;
        request.color = i % 2 ? RED : BLUE;
        part.bytes = i * 300;
        request.own.before = i * 1000000007L;
        part.label = i % 4 ? "label" : 0;
        snprintf(request.name, sizeof request.name, "n%ld", i);
        snprintf(text, sizeof text, "t%ld", i);
        sum += work(i * 3, &request, 0.5, i & 1, -(i % 100), text, i + 6, i + 7, wide, i + 9);
        sum += widened(i + 1).words[0] + helper(i, i + 2);
    }
    return sum == 1;
}
"#;

/// The value of a parameter in a call with this number, as it is shown.
type Expected = fn(i64) -> String;

/// Parameters of `work` and the values that they have in a call, as they are shown.
const PARAMETERS: [(&str, Expected); 13] = [
    ("n", |i| (3 * i).to_string()),
    ("request->kind", |i| (-i).to_string()),
    ("request->low", |i| (i % 32).to_string()),
    ("request->high", |i| (i % 128).to_string()),
    ("request->word", |i| (i % 32 + 32 * (i % 128)).to_string()),
    ("request->part->bytes", |i| (i * 300 % 65_536).to_string()),
    ("request->own.before", |i| (i * 1_000_000_007).to_string()),
    ("request->color", |i| if i % 2 == 1 { "1".to_owned() } else { "70000".to_owned() }),
    ("odd", |i| (i & 1).to_string()),
    ("small", |i| (-(i % 100)).to_string()),
    ("sixth", |i| (i + 6).to_string()),
    ("seventh", |i| (i + 7).to_string()),
    ("last", |i| (i + 9).to_string()),
];
const TEXTS: [(&str, char); 2] = [("text", 't'), ("request->name", 'n')];

/// A way to compile.
struct Compiler {
    command: &'static str,
    options: &'static [&'static str],
}

const COMPILERS: [Compiler; 5] = [
    Compiler { command: "gcc", options: &["-O0", "-g"] },
    Compiler { command: "gcc", options: &["-O2", "-g", "-fcf-protection=full"] },
    Compiler { command: "gcc", options: &["-O2", "-gdwarf-4", "-gz"] },
    Compiler { command: "clang", options: &["-O0", "-g"] },
    Compiler { command: "clang", options: &["-O2", "-g"] },
];

impl Compiler {
    /// `None` without the compiler: then the reason of the skip is printed.
    fn compile(&self, folder: &Path) -> Option<String> {
        let cc = testkit::needed(self.command)?;
        let (input, output) = (folder.join("program.c"), folder.join("program"));
        std::fs::write(&input, SOURCE).unwrap();
        let done =
            Command::new(cc).args(self.options).args(["-w", "-o"]).arg(&output).arg(&input).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Some(output.to_str().unwrap().to_owned())
    }

    fn name(&self) -> String {
        format!("{} {}", self.command, self.options.join(" "))
    }
}

/// All occurrences of an event while the program makes its calls: the texts of its own fields in order, `null` for those without a value.
fn collected(program: &str, event: &str) -> Result<Vec<Vec<(String, String)>>, MonitorError> {
    let mut target = Process::start(
        Command::new(program).arg(CALLS.to_string()).stdin(Stdio::piped()).stdout(Stdio::null()),
    )
    .unwrap();
    let monitor = MonitorBuilder::default().source(Source::Pid(target.pid())).ring_pages(1024).build()?;
    monitor.register(parse_event(event).unwrap())?;
    let mut stdin = target.stdin.take().unwrap();
    let mut all = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            testkit::until("the monitor runs", || monitor.is_running());
            stdin.write_all(b"go\n").unwrap();
        });
        monitor.run(|item| {
            if let Body::Event(fields) = &item.body {
                let own = fields.all().filter(|(field, _)| !field.common && !field.name.starts_with("__"));
                all.push(own.map(|(field, value)| (field.name.clone(), shown(value))).collect());
            }
        })
    })?;
    Ok(all)
}

fn shown(value: Option<Value<'_>>) -> String {
    match value {
        None => "null".to_owned(),
        Some(Value::Signed(number)) => number.to_string(),
        Some(Value::Unsigned(number)) => number.to_string(),
        Some(Value::Text { text, .. }) => String::from_utf8_lossy(text).into_owned(),
        Some(other) => panic!("{other:?}"),
    }
}

#[test]
fn parameters_have_the_values_of_the_call_with_and_without_optimization() {
    for compiler in &COMPILERS {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compiler.compile(folder.path()) else { continue };
        let names = PARAMETERS.iter().map(|(text, _)| *text).chain(TEXTS.iter().map(|(text, _)| *text));
        let arguments: Vec<String> =
            names.enumerate().map(|(number, text)| format!("a{number}=arg:{text}")).collect();
        let event = format!("uprobe:{program}:work {}", arguments.join(" "));
        let all = permitted_probe!(collected(&program, &event));
        assert_eq!(all.len() as u64, CALLS, "{}", compiler.name());
        for (call, values) in (0i64..).zip(&all) {
            let numbers = PARAMETERS.iter().map(|(text, expected)| (*text, expected(call)));
            let texts = TEXTS.iter().map(|(text, letter)| (*text, format!("{letter}{call}")));
            for ((text, expected), (_, found)) in numbers.chain(texts).zip(values) {
                assert_eq!(*found, expected, "{}: {text} in call {call}", compiler.name());
            }
        }
    }
}

#[test]
fn a_parameter_behind_the_address_of_a_result_is_found() {
    for compiler in &COMPILERS {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compiler.compile(folder.path()) else { continue };
        let all = permitted_probe!(collected(&program, &format!("uprobe:{program}:widened n=arg:n")));
        let found: Vec<String> = all.into_iter().flatten().map(|(_, value)| value).collect();
        let expected: Vec<String> = (1..=CALLS).map(|n| n.to_string()).collect();
        assert_eq!(found, expected, "{}", compiler.name());
    }
}

#[test]
fn an_event_stays_where_a_parameter_was_optimized_out() {
    let compiler = &COMPILERS[4];
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiler.compile(folder.path()) else { return };
    let all =
        permitted_probe!(collected(&program, &format!("uprobe:{program}:helper b=arg:used a=arg:unused")));
    assert_eq!(all.len() as u64, CALLS);
    for (call, values) in (0..).zip(&all) {
        let expected = [("b".to_owned(), (call + 2).to_string()), ("a".to_owned(), "null".to_owned())];
        assert_eq!(*values, expected);
    }
    let refused =
        ArgumentPlace::of(&Probe::uprobe(&program, "helper").args("a=arg:unused"), "a").unwrap_err();
    assert!(refused.to_string().contains("does not keep a"), "{refused}");
}

#[test]
fn what_cannot_be_read_is_refused_by_its_name() {
    for compiler in &COMPILERS {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compiler.compile(folder.path()) else { continue };
        for (text, part) in [
            ("scale", "floating-point"),
            ("request->weight", "floating-point"),
            ("wide", "name a member"),
            ("nothing", "no parameter nothing; it has n, request, scale"),
            ("request->nothing", "no member nothing; it has kind, low, high, word, part"),
            ("n->x", "is a number, no pointer"),
            ("request.kind", "is a pointer, no structure"),
            ("request->kind.x", "is a number, no structure"),
            ("request->", "is not NAME"),
        ] {
            let probe = Probe::uprobe(&program, "work").args(&format!("a=arg:{text}"));
            let error = ArgumentPlace::of(&probe, "a").unwrap_err().to_string();
            assert!(error.contains(part), "{} {text}: {error}", compiler.name());
        }
        let error =
            ArgumentPlace::of(&Probe::uprobe(&program, "work").ret().args("a=arg:n"), "a").unwrap_err();
        assert!(error.to_string().contains("$retval"), "{error}");
        let texts = ArgumentPlace::of(&Probe::uprobe(&program, "work").args("a=arg:text"), "a").unwrap_err();
        assert!(texts.to_string().contains("is no number"), "{texts}");
        let stripped = format!("{program}.stripped");
        let strip = Command::new("strip").args(["-g", "-o", &stripped, &program]).status().unwrap();
        assert!(strip.success());
        let error = ArgumentPlace::of(&Probe::uprobe(&stripped, "work").args("a=arg:n"), "a").unwrap_err();
        assert!(error.to_string().contains("build with -g"), "{error}");
    }
}
