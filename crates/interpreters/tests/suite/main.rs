//! The crate against the interpreters of this machine.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod files;
mod lines;
mod offsets;
mod pythons;
