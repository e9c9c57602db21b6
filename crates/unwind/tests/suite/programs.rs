//! Programs that the tests compile: frame information in other sections, and code without any.
//!
//! A test whose compiler is not installed is skipped.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use object::Object;
use object::ObjectSymbol;
use unwind::Rule;
use unwind::Table;
use unwind::abi;

const PROGRAM: &str = r#"
#include <stdlib.h>
#include <stdio.h>
#include <signal.h>
static void handler(int signal) { exit(signal); }
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void) {
    int numbers[100];
    signal(SIGTERM, handler);
    for (int i = 0; i < 100; i++) numbers[i] = rand();
    qsort(numbers, 100, sizeof numbers[0], compare);
    printf("%d\n", numbers[0]);
    return 0;
}
"#;

pub(crate) fn build(name: &str, compiler: &str, arguments: &[&str]) -> Option<PathBuf> {
    build_source(PROGRAM, name, compiler, arguments)
}

pub(crate) fn build_source(source: &str, name: &str, compiler: &str, arguments: &[&str]) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("main.c"), source).unwrap();
    let output = folder.join("program");
    let mut command = Command::new(testkit::needed(compiler)?);
    let status = command.args(arguments).arg("-o").arg(&output).arg(folder.join("main.c")).status();
    assert!(status.unwrap().success(), "{compiler} {arguments:?}");
    Some(output)
}

fn rule_in_main(elf: &[u8], table: &Table) -> Option<Rule> {
    let file = object::File::parse(elf).unwrap();
    let main = file.symbols().find(|symbol| symbol.name() == Ok("main")).unwrap();
    table.lookup(main.address()).copied()
}

#[test]
fn debug_frame_plain_and_compressed() {
    let without_eh_frame = ["-O2", "-g", "-fno-asynchronous-unwind-tables"];
    let Some(path) = build("debug-frame", "gcc", &without_eh_frame) else { return };
    let plain = std::fs::read(&path).unwrap();
    let expected = unwind::compile(&plain).unwrap();
    assert!(expected.stats.debug_frame_functions >= 3, "{:?}", expected.stats);
    let entry = Rule { cfa: abi::cfa::SP, cfa_off: 8, ra_off: -8, ..Rule::NONE };
    assert_eq!(rule_in_main(&plain, &expected), Some(entry));
    for kind in ["zlib", "zlib-gnu", "zstd"] {
        let packed = path.with_extension(kind);
        let mut objcopy = Command::new(testkit::need!("objcopy"));
        objcopy.arg(format!("--compress-debug-sections={kind}")).arg(&path).arg(&packed);
        if !objcopy.status().is_ok_and(|status| status.success()) {
            testkit::skipped(format_args!("this objcopy does not know {kind}"));
            continue;
        }
        let table = unwind::compile(&std::fs::read(packed).unwrap()).unwrap();
        assert_eq!(table, expected, "{kind}");
    }
}

/// The entry point ends every walk, in dynamic and static programs.
#[test]
fn entry_points_are_roots() {
    for (name, compiler, arguments) in [
        ("entry-pie", "gcc", &["-O2"][..]),
        ("entry-fixed", "gcc", &["-O2", "-no-pie"]),
        ("entry-static", "gcc", &["-O2", "-static"]),
        ("entry-static-pie", "gcc", &["-O2", "-static-pie"]),
        ("entry-musl", "musl-gcc", &["-O2"]),
        ("entry-musl-static", "musl-gcc", &["-O2", "-static"]),
        ("entry-musl-stripped", "musl-gcc", &["-O2", "-static", "-s"]),
    ] {
        let Some(path) = build(name, compiler, arguments) else { continue };
        let elf = std::fs::read(path).unwrap();
        let table = unwind::compile(&elf).unwrap();
        let entry = object::File::parse(&*elf).unwrap().entry();
        // After the first call: the return address of the next frame.
        let rules: Vec<_> = (entry..entry + 16).map(|svma| table.lookup(svma).copied()).collect();
        assert!(rules.last().unwrap() == &Some(Rule::ROOT), "{name}: {rules:?}");
    }
    let loader = unwind::compile(&std::fs::read("/lib64/ld-linux-x86-64.so.2").unwrap()).unwrap();
    let entry = object::File::parse(&*std::fs::read("/lib64/ld-linux-x86-64.so.2").unwrap()).unwrap().entry();
    assert_eq!(loader.lookup(entry), Some(&Rule::ROOT));
}

/// `abort` of glibc is the first byte behind a function that ends with a call. Other exported functions have padding or the
/// end of another function before them.
#[test]
fn the_byte_before_a_function_has_a_mark() {
    let elf = std::fs::read("/lib/x86_64-linux-gnu/libc.so.6").unwrap();
    let table = unwind::compile(&elf).unwrap();
    let file = object::File::parse(&*elf).unwrap();
    let mark = |name: &str| {
        let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(name)).unwrap();
        table.lookup(symbol.address() - 1).map_or(0, |rule| rule.flags & abi::START)
    };
    for name in ["abort", "exit", "pthread_exit", "qsort", "printf", "getpid"] {
        assert_eq!(mark(name), abi::START, "{name}");
    }
    assert!(table.rules.iter().any(|rule| rule.flags & (abi::START | abi::ENTRY) == abi::ENTRY));
}

/// musl's libc has no frame information; its code must give rows for nearly all functions.
#[test]
fn musl_is_covered_by_its_code() {
    let elf = std::fs::read(testkit::need!("musl")).unwrap();
    let table = unwind::compile(&elf).unwrap();
    let stats = table.stats;
    assert!(stats.analysed_functions > 1500, "{stats:?}");
    assert!(stats.refused_functions * 50 < stats.analysed_functions, "{stats:?}");
    let file = object::File::parse(&*elf).unwrap();
    let has_rows = |name: &str| {
        let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(name)).unwrap();
        table.lookup(symbol.address()).is_some()
    };
    for name in
        ["qsort", "printf", "malloc", "memcpy", "pthread_create", "__libc_start_main", "nanosleep", "read"]
    {
        assert!(has_rows(name), "{name}");
    }
    assert!(table.rules.iter().any(|rule| rule.flags & abi::SIGNAL != 0 && rule.cfa == abi::cfa::SP_DEREF));
}

/// The vdso of this process.
#[test]
fn vdso() {
    use std::os::unix::fs::FileExt;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let Some(line) = maps.lines().find(|line| line.ends_with("[vdso]")) else {
        testkit::skip!("this process has no vdso")
    };
    let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
    let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap());
    let mut elf = vec![0; (end - start) as usize];
    std::fs::File::open("/proc/self/mem").unwrap().read_exact_at(&mut elf, start).unwrap();
    let table = unwind::compile(&elf).unwrap();
    assert!(table.stats.eh_frame_functions > 0 && table.stats.bad_fdes == 0, "{:?}", table.stats);
    let file = object::File::parse(&*elf).unwrap();
    let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok("__vdso_clock_gettime")).unwrap();
    assert_eq!(table.lookup(symbol.address()).map(|rule| (rule.cfa, rule.cfa_off)), Some((abi::cfa::SP, 8)));
}
