//! Where functions return: beside a disassembler, over whole libraries, and in programs whose every return is known.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use probes::{Binary, CallReturns, Callee, ProbeError, Target};

use crate::programs::compiled_by;

/// The addresses of all instructions that return, by objdump.
fn returns_by_objdump(path: &Path) -> Option<BTreeSet<u64>> {
    let objdump = testkit::needed("objdump")?;
    let output = Command::new(objdump).args(["-d", "--no-show-raw-insn"]).arg(path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let at = |line: &str| {
        let (address, instruction) = line.trim_start().split_once(":\t")?;
        let mut words = instruction.split_ascii_whitespace();
        words
            .any(|word| matches!(word, "ret" | "retq"))
            .then(|| u64::from_str_radix(address, 16).ok())
            .flatten()
    };
    Some(text.lines().filter_map(at).collect())
}

/// The functions that a library exports: name, start and size.
fn exported(path: &Path) -> Option<Vec<(String, u64, u64)>> {
    let nm =
        Command::new(testkit::needed("nm")?).args(["-D", "-S", "--defined-only"]).arg(path).output().unwrap();
    let text = String::from_utf8(nm.stdout).unwrap();
    let function = |line: &str| {
        let mut words = line.split(' ');
        let number = |word: Option<&str>| u64::from_str_radix(word?, 16).ok();
        let (start, size) = (number(words.next())?, number(words.next())?);
        let kind = words.next().filter(|kind| matches!(*kind, "T" | "W" | "t"))?;
        let name = words.next()?.split('@').next()?;
        (!kind.is_empty()).then(|| (name.to_owned(), start, size))
    };
    Some(text.lines().filter_map(function).collect())
}

#[test]
fn the_returns_of_whole_libraries_are_those_of_a_disassembler() {
    if !cfg!(target_arch = "x86_64") {
        testkit::skip!("only code of x86-64 is followed");
    }
    for library in ["libc.so.6", "libstdc++.so.6"] {
        let path = Path::new("/lib/x86_64-linux-gnu").join(library);
        let path = if path.exists() { path } else { Path::new("/usr/lib/x86_64-linux-gnu").join(library) };
        if !path.exists() {
            continue;
        }
        let (Some(oracle), Some(functions)) = (returns_by_objdump(&path), exported(&path)) else { return };
        let binary = Binary::open(&path).unwrap();
        let (mut followed, mut refused, mut unseen) = (0, 0, 0);
        // Every function is followed in a few minutes; these are enough to tell a difference.
        for (name, start, size) in functions.into_iter().step_by(5) {
            let target = Target::parse(&name).unwrap();
            // Older versions of a function have the same name.
            let Some(location) = binary.locate(&target).ok().filter(|location| location.address == start)
            else {
                continue;
            };
            match binary.exits(&target, &location) {
                Ok(exits) => {
                    followed += 1;
                    let ours: BTreeSet<u64> =
                        exits.iter().filter(|exit| !exit.is_jump).map(|exit| exit.address).collect();
                    assert!(ours.is_subset(&oracle), "{library} {name}: {ours:x?}");
                    let theirs: BTreeSet<u64> = oracle.range(start..start + size).copied().collect();
                    unseen += u32::from(!theirs.is_subset(&ours));
                }
                Err(ProbeError::Returns { .. }) => refused += 1,
                Err(other) => panic!("{name}: {other}"),
            }
        }
        println!(
            "{library}: {followed} followed, {refused} refused, {unseen} with a return that no path reaches"
        );
        assert!(followed > 400 && refused * 10 < followed, "{library}: {followed} {refused}");
        assert!(unseen * 200 < followed, "{library}: {followed} {unseen}");
    }
}

const SOURCE: &str = r#"
#include <stdexcept>
#define EXACT extern "C" __attribute__((noinline, noclone))
volatile int sink;
EXACT int other(int n) { sink = n; return n + 1; }
EXACT int plain(int n) { if (n > 3) { sink = n; return other(n) * 2; } return n - 1; }
EXACT int tail(int n) { sink = 1; return other(n); }
EXACT int catches(int n) { try { if (n > 5) throw n; sink = n; return plain(n) + 1; } catch (int e) { return e * 3; } }
EXACT int choose(int n) {
    switch (n) {
    case 0: sink = 3; return other(1) + 7; case 1: sink = 4; return 9; case 2: return sink; case 3: sink++; return 2;
    case 4: sink--; return 5; case 5: return sink * 3; case 6: sink = 8; return 1; default: return -1;
    }
}
EXACT int by_pointer(int (*f)(int), int n) { sink = n; return f(n); }
EXACT int inner(int n) { sink = n; return n; }
EXACT int outer(int n) { int got = inner(n ? n : 1); while (!got) { if (sink) throw n; got = inner(1); } return got; }
EXACT int beside(int n) { if (n == 7) return 3; return inner(n) + 1; }
EXACT __attribute__((noreturn)) void never(int n) { for (;;) sink = n; }
int main(int argc, char **argv) {
    if (argc == 77) never(1);
    return plain(argc) + tail(argc) + catches(argc) + choose(argc) + by_pointer(other, argc) + outer(argc) + beside(argc);
}"#;

#[test]
fn the_returns_of_a_program_are_known() {
    if !cfg!(target_arch = "x86_64") {
        testkit::skip!("only code of x86-64 is followed");
    }
    for (compiler, flags) in [
        ("g++", "-O2"),
        ("g++", "-O0"),
        ("g++", "-O2 -static -fcf-protection"),
        ("clang++", "-O2"),
        ("clang++", "-Os"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let flags: Vec<&str> = flags.split(' ').collect();
        let Some(path) = compiled_by(compiler, folder.path(), "program.cc", SOURCE, &flags) else { return };
        let Some(oracle) = returns_by_objdump(&path) else { return };
        let binary = Binary::open(&path).unwrap();
        let located = |name: &str| {
            let target = Target::parse(name).unwrap();
            let location = binary.locate(&target).unwrap();
            (target, location)
        };
        let exits = |name: &str| {
            let (target, location) = located(name);
            binary.exits(&target, &location).unwrap_or_else(|error| panic!("{compiler} {flags:?}: {error}"))
        };
        for name in ["other", "plain", "catches", "choose", "inner", "outer", "beside", "main"] {
            let found = exits(name);
            assert!(!found.is_empty(), "{name}");
            assert!(
                found.iter().all(|exit| exit.is_jump || oracle.contains(&exit.address)),
                "{compiler} {flags:?} {name}: {found:x?}"
            );
        }
        let jumps = |name: &str| exits(name).iter().filter(|exit| exit.is_jump).count();
        let is_optimized = !flags.contains(&"-O0");
        assert_eq!(jumps("tail"), usize::from(is_optimized), "{compiler} {flags:?}");
        assert!(exits("never").is_empty());
        let (_, inner) = located("inner");
        let (_, outer) = located("outer");
        let (_, beside) = located("beside");
        let (_, tail) = located("tail");
        let is_inner = |callee: Callee<'_>| callee == Callee::At(inner.address);
        assert_eq!(
            binary.call_returns(&outer, &is_inner).unwrap(),
            CallReturns::BehindInner,
            "{compiler} {flags:?}"
        );
        assert!(
            matches!(binary.call_returns(&beside, &is_inner).unwrap(), CallReturns::At(at) if !at.is_empty())
        );
        // The function that it jumps to returns in its place.
        let (_, other) = located("other");
        let CallReturns::At(of_other) = binary.call_returns(&other, &|_| false).unwrap() else { panic!() };
        let CallReturns::At(of_tail) = binary.call_returns(&tail, &|_| false).unwrap() else { panic!() };
        assert!(!is_optimized || of_tail == of_other, "{of_tail:x?} {of_other:x?}");
        // Where a pointer leads is not known.
        let (target, by_pointer) = located("by_pointer");
        let error = binary.call_returns(&by_pointer, &|_| false);
        assert!(
            !is_optimized || error.unwrap_err().to_string().contains("may lead anywhere"),
            "{compiler} {flags:?}"
        );
        let _either = binary.exits(&target, &by_pointer);
        let middle = Target::Offset(other.offset + 1);
        let error = binary.locate(&middle).and_then(|location| binary.exits(&middle, &location));
        assert!(error.is_err(), "a place inside of a function has no return");
    }
}
