//! The crate against the interpreters of this machine.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod files;
mod hostile;
mod lines;
mod offsets;
mod processes;

/// The supported versions of CPython.
const VERSIONS: [(u8, u8); 8] = [(3, 8), (3, 9), (3, 10), (3, 11), (3, 12), (3, 13), (3, 14), (3, 15)];
