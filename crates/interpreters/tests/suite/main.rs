//! The crate against the interpreters of this machine.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod files;
mod hostile;
mod lines;
mod offsets;
mod processes;
mod pythons;
