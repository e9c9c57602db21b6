//! perf.data as an input: files that perf itself recorded, beside what `perf script` prints of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::capture::assert_status;
use crate::{run_in, stderr, stdout};

/// Recursion, two leaves, and calls back from the C library.
const PROGRAM: &str = r"
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
volatile unsigned long sink;
__attribute__((noinline)) unsigned long app_one(unsigned long n) { unsigned long s = 0; for (unsigned long i = 0; i < n; i++) { s += i * i; sink = s; } return s; }
__attribute__((noinline)) unsigned long app_two(unsigned long n) { unsigned long s = 1; for (unsigned long i = 0; i < n; i++) { s ^= i * 7; sink = s; } return s; }
__attribute__((noinline)) unsigned long app_deep(unsigned long n, int d) { if (d > 0) return app_deep(n, d - 1) + 1; return app_one(n) + app_two(n / 2) + getppid(); }
__attribute__((noinline)) int app_order(const void *a, const void *b) { for (int i = 0; i < 100; i++) sink++; return *(int *)a - *(int *)b; }
int main(void) {
    static int all[500];
    clock_t begin = clock();
    while (clock() - begin < CLOCKS_PER_SEC) {
        sink += app_deep(20000, sink % 5);
        for (int i = 0; i < 500; i++) all[i] = rand();
        qsort(all, 500, sizeof *all, app_order);
    }
    return 0;
}
";

type Stacks = BTreeMap<String, u64>;

/// Compiles and records. `false`: that is not possible here.
fn record(folder: &Path, compile: &str, record: &[&str]) -> bool {
    std::fs::write(folder.join("app.c"), PROGRAM).unwrap();
    let (Some(_), Some(_)) = (testkit::needed("perf"), testkit::run_tool(folder, compile.split(' '))) else {
        return false;
    };
    let recorded = testkit::perf(folder)
        .args(["record", "-q", "-o", "perf.data"])
        .args(record)
        .args(["--", "./app"])
        .current_dir(folder)
        .output()
        .unwrap();
    if !recorded.status.success() {
        testkit::skipped(format_args!("perf may not record: {}", stderr(&recorded)));
    }
    recorded.status.success()
}

/// The functions of the program in a stack, outermost first. Those of the C library have several names.
fn own<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.filter(|name| name.starts_with("app_") || *name == "main").collect::<Vec<_>>().join(";")
}

/// What `perf script` prints: all samples of an event, and the stacks of own functions.
fn by_perf(folder: &Path, event: &str) -> (u64, Stacks) {
    let output = testkit::perf(folder)
        .args(["script", "-i", "perf.data", "-F", "event,ip,sym", "--no-inline"])
        .current_dir(folder)
        .output()
        .unwrap();
    let text = stdout(&output);
    let (mut count, mut stacks) = (0, Stacks::new());
    for sample in text.split("\n\n") {
        let mut lines = sample.lines().filter(|line| !line.trim().is_empty());
        let Some(head) = lines.next() else { continue };
        if !head.trim().starts_with(event) {
            continue;
        }
        let names: Vec<_> =
            lines.filter_map(|line| line.trim().split_once(' ')).map(|(_, name)| name).collect();
        count += 1;
        *stacks.entry(own(names.into_iter().rev())).or_default() += 1;
    }
    (count, stacks)
}

/// What `perf-agent convert` makes of it.
fn by_us(folder: &Path, more: &[&str]) -> (u64, Stacks) {
    let words =
        ["convert", "perf.data", "-o", "-", "--format", "folded", "--value", "samples", "--merge", "all"];
    let output = run_in(folder, &[&words[..], more].concat());
    assert_status(&output, 0);
    let (mut count, mut stacks) = (0, Stacks::new());
    for line in stdout(&output).lines() {
        let (stack, samples) = line.rsplit_once(' ').unwrap();
        let samples: u64 = samples.parse().unwrap();
        count += samples;
        *stacks.entry(own(stack.split(';'))).or_default() += samples;
    }
    (count, stacks)
}

fn same(one: &Stacks, other: &Stacks) -> u64 {
    one.iter().map(|(stack, count)| *count.min(other.get(stack).unwrap_or(&0))).sum()
}

#[test]
fn call_chains_are_those_that_perf_script_prints() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let events = ["-g", "-F", "499", "-e", "cpu-clock,page-faults"];
    if !record(folder, "gcc -O1 -fno-omit-frame-pointer -fno-optimize-sibling-calls -o app app.c", &events) {
        return;
    }
    for event in ["cpu-clock", "page-faults"] {
        let (ours, theirs) = (by_us(folder, &["--mode", event]), by_perf(folder, event));
        assert!(ours.0 > 0 && ours == theirs, "{event}: {ours:?}\n{theirs:?}");
    }
    let output = run_in(folder, &["top", "perf.data"]);
    assert_status(&output, 0);
    assert!(stderr(&output).contains("not page-faults"), "{}", stderr(&output));
    assert!(stdout(&output).contains("app_one"), "{}", stdout(&output));
    let output = run_in(folder, &["convert", "perf.data", "-o", "x.svg", "--mode", "cycles"]);
    assert_status(&output, 1);
    assert!(stderr(&output).contains("it has cpu-clock"), "{}", stderr(&output));

    // The other commands that read profiles.
    assert_status(&run_in(folder, &["merge", "perf.data", "perf.data", "-o", "both.pb.gz"]), 0);
    let output = run_in(folder, &["diff", "perf.data", "both.pb.gz"]);
    assert!(stdout(&output).contains("changed significantly"), "{}", stderr(&output));

    let whole = std::fs::read(folder.join("perf.data")).unwrap();
    // Inside of the records: what follows them, such as descriptions of the BPF programs of the machine, is not needed.
    let number = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().unwrap()) as usize;
    let (data, size) = (number(40), number(48));
    std::fs::write(folder.join("perf.data"), &whole[..data + size / 2]).unwrap();
    let output = run_in(folder, &["convert", "perf.data", "-o", "cut.pb.gz"]);
    assert_status(&output, 1);
    assert!(stderr(&output).contains("at offset "), "{}", stderr(&output));
    assert!(!folder.join("cut.pb.gz").exists());
}

/// `:S`: the first event samples, with the counts of both.
#[test]
fn members_of_a_group_have_the_samples_that_perf_script_prints() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    if !record(folder, WITH_POINTERS, &["-g", "-F", "499", "-e", "{cpu-clock,task-clock}:S"]) {
        return;
    }
    for event in ["cpu-clock", "task-clock"] {
        let (ours, theirs) = (by_us(folder, &["--mode", event]), by_perf(folder, event));
        assert!(ours.0 > 100 && ours == theirs, "{event}: {ours:?}\n{theirs:?}");
    }
}

#[test]
fn copied_stacks_are_walked_without_frame_pointers() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let dwarf = ["--call-graph", "dwarf", "-F", "199", "-e", "cpu-clock"];
    if !record(folder, "gcc -O1 -fomit-frame-pointer -fno-optimize-sibling-calls -o app app.c", &dwarf) {
        return;
    }
    let (ours, theirs) = (by_us(folder, &[]), by_perf(folder, "cpu-clock"));
    assert!(ours.0 > 20 && ours.0 == theirs.0, "{ours:?}\n{theirs:?}");
    // Both walkers have code in which one of them does not find the caller.
    assert!(same(&ours.1, &theirs.1) * 100 >= ours.0 * 97, "{ours:?}\n{theirs:?}");
    let rooted: u64 =
        ours.1.iter().filter(|(stack, _)| stack.starts_with("main")).map(|(_, count)| count).sum();
    assert!(rooted * 100 >= ours.0 * 95, "{ours:?}");
}

const WITH_POINTERS: &str = "gcc -O1 -fno-omit-frame-pointer -fno-optimize-sibling-calls -o app app.c";

#[test]
fn compressed_recordings_and_streams_are_read_as_plain_ones_are() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // `perf record` ends with an error where it was built without zstd.
    if !record(folder, WITH_POINTERS, &["-z", "-g", "-F", "499", "-e", "cpu-clock"]) {
        return;
    }
    let (ours, theirs) = (by_us(folder, &[]), by_perf(folder, "cpu-clock"));
    assert!(ours.0 > 0 && ours == theirs, "{ours:?}\n{theirs:?}");

    let words = ["record", "-q", "-o", "-", "-g", "-F", "499", "-e", "cpu-clock", "--", "./app"];
    let stream = testkit::perf(folder).args(words).current_dir(folder).output().unwrap();
    assert!(stream.status.success(), "{}", stderr(&stream));
    std::fs::write(folder.join("perf.data"), &stream.stdout).unwrap();
    let (ours, theirs) = (by_us(folder, &[]), by_perf(folder, "cpu-clock"));
    assert!(ours.0 > 0 && ours == theirs, "{ours:?}\n{theirs:?}");
    let piped = |file: &str| {
        let line = format!(
            "cat {file} | {} convert - -o - --format folded --value samples --merge all",
            env!("CARGO_BIN_EXE_perf-agent")
        );
        Command::new("sh").args(["-c", &line]).current_dir(folder).output().unwrap()
    };
    let output = piped("perf.data");
    assert_status(&output, 0);
    let samples = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
    assert_eq!(stdout(&output).lines().map(samples).sum::<u64>(), ours.0);

    assert!(record(folder, WITH_POINTERS, &["-g", "-F", "99", "-e", "cpu-clock"]));
    let output = piped("perf.data");
    assert_status(&output, 1);
    assert!(stderr(&output).contains("give the file itself"), "{}", stderr(&output));
}

#[test]
fn files_that_are_elsewhere_now_are_found_in_symbol_directories_by_their_build_id() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let dwarf = ["--call-graph", "dwarf", "-F", "199", "-e", "cpu-clock"];
    let compile = "gcc -g -O1 -fomit-frame-pointer -fno-optimize-sibling-calls -Wl,--build-id -o app app.c";
    if !record(folder, compile, &dwarf) {
        return;
    }
    let at_its_path = by_us(folder, &[]);
    let elsewhere = folder.join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    // A debug file alone has neither what unwinds nor the places of code: no wrong names are made of offsets.
    let objcopy = ["objcopy", "--only-keep-debug", "app", "elsewhere/app.debug"];
    if testkit::run_tool(folder, objcopy).is_none() {
        return;
    }
    std::fs::rename(folder.join("app"), folder.join("kept")).unwrap();
    let symbol_dir = ["--symbol-dir", "elsewhere"];
    let named = by_us(folder, &symbol_dir);
    assert!(named.1.keys().all(String::is_empty), "{named:?}");
    std::fs::rename(folder.join("kept"), elsewhere.join("app")).unwrap();
    assert_eq!(by_us(folder, &symbol_dir), at_its_path);
    assert!(at_its_path.1.keys().any(|stack| stack.starts_with("main;app_deep")), "{at_its_path:?}");

    let words = ["convert", "perf.data", "-o", "a.pb.gz", "--symbol-dir"];
    assert_status(&run_in(folder, &[&words[..], &["elsewhere"]].concat()), 0);
    let output = run_in(folder, &[&words[..], &["nowhere"]].concat());
    assert!(stderr(&output).contains("--symbol-dir nowhere: "), "{}", stderr(&output));
    let output = run_in(folder, &["convert", "a.pb.gz", "-o", "b.pb.gz", "--symbol-dir", "elsewhere"]);
    assert_status(&output, 1);
    assert!(stderr(&output).contains("--symbol-dir is for perf.data"), "{}", stderr(&output));
}

/// Calls the kernel's code in the process, and code that it makes itself and names in its perf map.
const MADE: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    /* mov $100000, %ecx; dec %ecx; jnz -4; ret */
    static const unsigned char code[] = {0xb9, 0xa0, 0x86, 1, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
    unsigned char *made = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(made, code, sizeof code);
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(path, "w");
    fprintf(map, "%lx %lx made_at_run_time\n", (long)made, (long)sizeof code);
    fclose(map);
    FILE *pid = fopen("pid", "w");
    fprintf(pid, "%d", getpid());
    fclose(pid);
    struct timespec now;
    for (clock_t begin = clock(); clock() - begin < CLOCKS_PER_SEC;) {
        ((void (*)(void))made)();
        for (int i = 0; i < 2000; i++) clock_gettime(CLOCK_MONOTONIC, &now);
    }
    return 0;
}
"#;

#[test]
#[cfg(target_arch = "x86_64")]
fn code_in_no_file_has_the_names_that_perf_gives_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("made.c"), MADE).unwrap();
    let clock = ["-g", "-F", "499", "-e", "cpu-clock"];
    if !record(folder, "gcc -O1 -fno-omit-frame-pointer -o app made.c", &clock) {
        return;
    }
    let pid = std::fs::read_to_string(folder.join("pid")).unwrap();
    let words = ["convert", "perf.data", "-o", "-", "--format", "folded", "--merge", "all"];
    let output = run_in(folder, &words);
    std::fs::remove_file(format!("/tmp/perf-{pid}.map")).unwrap();
    let text = stdout(&output);
    let leaves: Vec<_> =
        text.lines().filter_map(|line| line.rsplit_once(' ')?.0.rsplit(';').next()).collect();
    let has = |name: &str| leaves.iter().any(|leaf| leaf.contains(name));
    assert!(has("made_at_run_time") && has("clock_gettime"), "{text}\n{}", stderr(&output));
    assert!(!text.contains("[vdso+"), "{text}");
    let without = stdout(&run_in(folder, &words));
    assert!(without.contains("[jit]") && !without.contains("made_at_run_time"), "{without}");
}
