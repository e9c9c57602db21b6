//! What is known of interpreters, so that the functions that they run can be shown instead of the interpreter's own loop.
//!
//! In: [`python`], for CPython. Guaranteed: pure, no I/O, no Linux. Files and memory of targets are not trusted: no input causes a panic,
//! and memory and work are bounded by the size of the input or by named limits. What is not known for sure is an error or absent, never a
//! guess.
//! Not here: which process runs an interpreter, reading its memory (crate `perfagent`), and the walk itself (`bpf/`, crate `kernel`).
#![forbid(unsafe_code)]

pub mod python;
