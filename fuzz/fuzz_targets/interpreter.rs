//! Any bytes as file of an interpreter: no panic, no hang, and code where code is.
#![no_main]

use interpreters::python::Interpreter;

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    if let Ok(Some(found)) = Interpreter::of_file(file) {
        let evaluator = &found.evaluator;
        assert!(evaluator.ranges.iter().chain(&evaluator.entry).all(|range| range.start < range.end));
        let first = &found.evaluator.ranges[0];
        assert!(
            found
                .evaluator
                .before_dispatch
                .is_none_or(|before| { before.start == first.start && before.end < first.end })
        );
    }
});
