//! Any stack: the merge keeps each native frame and, unless it fails, each Python frame, once and in order. Any memory: the search for the
//! thread state ends.
#![no_main]

use interpreters::python::merge::{NativeFrame, PythonFrame, Stack, merge};
use interpreters::python::slot::{self, ThreadState};
use interpreters::python::{Family, Outcome, Position};

libfuzzer_sys::fuzz_target!(|input: (u8, Vec<u8>, Vec<(bool, bool)>, Vec<(u64, u64)>, &[u8])| {
    let (flags, native, python, states, memory) = input;
    let python: Vec<_> =
        python.into_iter().map(|(outermost, is_empty)| PythonFrame { outermost, is_empty }).collect();
    let kinds = [NativeFrame::Other, NativeFrame::Evaluator, NativeFrame::Entry];
    let native: Vec<_> = native.into_iter().map(|kind| kinds[usize::from(kind) % kinds.len()]).collect();
    let families = [Family::HeapFrames, Family::EntryFrames, Family::Shims, Family::DebugOffsets];
    let flag = |bit: u32| flags >> bit & 1 == 1;
    let merged = merge(&Stack {
        family: families[usize::from(flags & 3)],
        native: &native,
        has_opcode_functions: flag(6),
        native_is_whole: flag(2),
        python: &python,
        python_is_whole: flag(3),
        half_linked: flag(4),
        other_interpreters: flag(5),
    });
    let (mut next_native, mut next_python) = (0, 0);
    for position in merged.positions {
        match position {
            Position::Native(at) | Position::Evaluator(at) => {
                assert_eq!(at, next_native);
                next_native += 1;
            }
            Position::Python(at) => {
                assert!(at >= next_python && python[next_python..at].iter().all(|frame| frame.is_empty));
                assert!(merged.outcome != Outcome::Failed && !python[at].is_empty);
                next_python = at + 1;
            }
        }
    }
    assert_eq!(next_native, native.len());
    let left = &python[next_python..];
    assert!(merged.outcome == Outcome::Failed || left.iter().all(|frame| frame.is_empty));

    let states: Vec<_> = states
        .into_iter()
        .map(|(address, thread_id)| ThreadState { address, thread_id: thread_id >> 17 & !7 })
        .collect();
    let _ = slot::find(&states, |address, len| {
        let rest = memory.get((address % 4096) as usize..).unwrap_or_default();
        rest[..rest.len().min(len)].to_vec()
    });
});
