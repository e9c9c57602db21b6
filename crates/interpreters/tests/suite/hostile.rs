//! Damaged files.

use interpreters::python::{Interpreter, Version, VersionSource};
use profile::Svma;
use proptest::prelude::*;

/// The seeds of the fuzzer: two tiny files with what makes an interpreter.
fn seed(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/../../fuzz/corpus/interpreter/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn the_seeds_are_interpreters() {
    for (name, minor, micro, source) in
        [("3.9", 9, 18, VersionSource::Text), ("3.14", 14, 10, VersionSource::Number)]
    {
        let found = Interpreter::of_file(&seed(name)).unwrap().unwrap();
        assert_eq!((found.version, found.version_source), (Version { major: 3, minor, micro }, source));
        assert_eq!((found.layout.str_kind_shift, found.layout.tagged_pointers), (2, minor == 14));
        // The evaluator jumps into its cold part, which lies behind another function. It also jumps to a function behind that, and calls
        // code behind that which does not begin as functions do.
        let [hot, cold] = &found.evaluator.ranges[..] else { panic!("{:x?}", found.evaluator) };
        assert_eq!(
            (hot.end.0 - hot.start.0, cold.start.0 - hot.end.0, cold.end.0 - cold.start.0),
            (16, 8, 3)
        );
        assert_eq!(found.evaluator.before_dispatch, Some(hot.start..Svma(hot.start.0 + 12)));
    }
    // An interpreter of 3.13 or later whose initial values are missing or damaged.
    let mut file = seed("3.14");
    let at = file.windows(8).position(|bytes| bytes == b"xdebugpy").unwrap();
    file[at] = b'y';
    let refused = Interpreter::of_file(&file).unwrap_err().to_string();
    assert_eq!(
        refused,
        "CPython 3.14.10: _PyRuntime does not begin with the debug offsets of CPython 3.13 or later"
    );
    file[at] = b'x';
    file[at + 16] = 1;
    let found = Interpreter::of_file(&file).unwrap().unwrap();
    assert!(found.layout.free_threaded && found.thread_variable.is_none());
}

#[test]
fn pre_releases_are_told_apart() {
    let mut file = seed("3.14");
    let version = 0x030e_0af0_u64.to_le_bytes();
    let at: Vec<usize> =
        file.windows(8).enumerate().filter(|(_, w)| *w == version).map(|(at, _)| at).collect();
    at.iter().for_each(|at| file[*at] = 0xb1);
    let refused = Interpreter::of_file(&file).unwrap_err().to_string();
    assert!(refused.contains("pre-release of CPython 3.14.10"), "{refused}");
}

#[test]
fn a_program_that_only_uses_an_interpreter_has_none() {
    let mut file = seed("3.14");
    let symbols =
        elf::Layout::parse(&file).unwrap().section(b".dynsym").unwrap().file_range(file.len()).unwrap();
    for entry in file[symbols].chunks_exact_mut(24) {
        // No section.
        entry[6..8].fill(0);
    }
    assert_eq!(Interpreter::of_file(&file), Ok(None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn a_damaged_file_does_no_harm(
        is_old: bool,
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        len in 0usize..20_000,
    ) {
        let mut file = seed(if is_old { "3.9" } else { "3.14" });
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        file.truncate(len);
        if let Ok(Some(found)) = Interpreter::of_file(&file) {
            prop_assert!(found.evaluator.ranges.iter().all(|range| range.start < range.end));
        }
    }
}
