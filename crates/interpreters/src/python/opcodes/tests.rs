//! Programs with a table of functions that end in jumps to each other, as C compilers make them.

use std::process::Command;

use super::*;

/// 160 opcodes, of which each is two entries of the table, or one; labels that opcodes jump to directly; the evaluator, which calls the first; and a
/// function that opcodes call and that is none of them.
const PROGRAM: &str = r"
typedef long (*opcode)(long *code, long total);
extern opcode const table[256];
volatile long sink;
__attribute__((noinline)) void helper(long n) { sink += n; }
__attribute__((noinline)) long label_error(long *code, long total) { helper(total); return -1; }
__attribute__((noinline)) long label_unwind(long *code, long total)
{ helper(3); if (total < -9) return label_error(code, total); return table[*code & 255](code + 1, total - 1); }
#define OPCODE(n) __attribute__((noinline)) long opcode_##n(long *code, long total) \
{ helper(n); if (total == -n) return label_unwind(code, total); return table[*code & 255](code + 1, total + n); }
#define TEN(n) OPCODE(n##0) OPCODE(n##1) OPCODE(n##2) OPCODE(n##3) OPCODE(n##4) OPCODE(n##5) OPCODE(n##6) OPCODE(n##7) \
OPCODE(n##8) OPCODE(n##9)
#define ALL TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9) TEN(10) TEN(11) TEN(12) TEN(13) TEN(14) TEN(15) TEN(16)
ALL
#undef OPCODE
#define OPCODE(n) opcode_##n,
#define REST [160 ... 255] = opcode_10
opcode const table[256] = { ALL REST };
START
int main(int count, char **words) { long code[4] = { count, 1, 2, 3 }; return _PyEval_EvalFrameDefault(code, count); }
";
/// The evaluator has the table itself, or the function that it calls has.
const STARTS: [&str; 2] = [
    "long _PyEval_EvalFrameDefault(long *code, long total) { return 1 + table[*code & 255](code + 1, total); }",
    "__attribute__((noinline)) long start(long *code, long total) { return table[*code & 255](code + 1, total); }
long _PyEval_EvalFrameDefault(long *code, long total) { return 1 + start(code, total); }",
];
/// Programs that may be anywhere, programs at fixed addresses, libraries.
const KINDS: [[&str; 2]; 3] = [["-fpie", "-pie"], ["-fno-pie", "-no-pie"], ["-fPIC", "-shared"]];

/// Start and size of each function, by `nm`.
fn functions(program: &std::path::Path) -> Vec<(String, Range<u64>)> {
    let output = Command::new("nm").args(["-S", "--defined-only"]).arg(program).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let of_line = |line: &str| {
        let [address, size, kind, name] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return None;
        };
        let [address, size] = [address, size].map(|hex| u64::from_str_radix(hex, 16).unwrap());
        kind.eq_ignore_ascii_case("t").then(|| (name.to_owned(), address..address + size))
    };
    text.lines().filter_map(of_line).collect()
}

/// What is found in a stripped program.
struct Found {
    opcodes: Option<Vec<Range<u64>>>,
    expected: Vec<Range<u64>>,
}

/// `None` without a compiler: then the reason of the skip is printed.
fn found(source: &str, options: [&str; 2]) -> Option<Found> {
    let gcc = testkit::needed("gcc")?;
    let folder = tempfile::tempdir().unwrap();
    let [text, whole, program] = ["program.c", "whole", "program"].map(|name| folder.path().join(name));
    std::fs::write(&text, source).unwrap();
    let built = Command::new(gcc)
        .args(["-O2", "-w", "-fvisibility=hidden"])
        .args(options)
        .arg("-o")
        .arg(&whole)
        .arg(&text)
        .status();
    assert!(built.unwrap().success());
    let all = functions(&whole);
    assert!(Command::new("strip").arg("-o").arg(&program).arg(&whole).status().unwrap().success());
    let is_opcode = |name: &str| ["opcode_", "label_"].iter().any(|prefix| name.starts_with(prefix));
    let mut expected: Vec<_> =
        all.iter().filter(|(name, _)| is_opcode(name)).map(|(_, range)| range.clone()).collect();
    expected.sort_unstable_by_key(|range| range.start);
    let evaluator = all.iter().find(|(name, _)| name == "_PyEval_EvalFrameDefault").unwrap().1.clone();
    let file = std::fs::read(&program).unwrap();
    let index = FunctionIndex::read(&file, &|| {}).unwrap();
    let opcodes = opcodes(&Layout::parse(&file).unwrap(), &file, &[evaluator], &index);
    Some(Found { opcodes, expected })
}

#[test]
fn all_opcodes_and_what_they_jump_to_are_found() {
    for start in STARTS {
        for options in KINDS {
            let source = PROGRAM.replace("START", start);
            let Some(Found { opcodes, expected }) = found(&source, options) else { return };
            assert!(expected.len() >= 162, "{options:?}: {}", expected.len());
            assert_eq!(opcodes, Some(expected), "{options:?}");
        }
    }
}

#[test]
fn a_table_of_other_data_is_none() {
    let source = PROGRAM.replace("START", STARTS[0]);
    for changed in [
        // Too few functions; and entries that are no functions.
        source.replace("{ ALL REST }", "{ [0 ... 255] = opcode_10 }"),
        source.replace("[160 ... 255] = opcode_10", "[160 ... 200] = opcode_10"),
        source.replace("[160 ... 255] = opcode_10", "[160 ... 255] = (opcode)&sink"),
    ] {
        assert_ne!(changed, source);
        for options in KINDS {
            let Some(found) = found(&changed, options) else { return };
            assert_eq!(found.opcodes, None, "{options:?}");
        }
    }
}
