//! What the tests of several crates need.
//!
//! In: child processes that end with their test, CPU time to burn, waiting with a deadline, skipping with a reason, packages, commands and the
//! built `perf-agent`, interpreters of Python, tests in a process of their own, control groups, a browser, how far its start has come, temporary
//! perf maps, rights. Guaranteed: nothing outlives the value that stands for it; no test is skipped without a line with the reason.
//! Not here: any part of the product, and anything that only one crate tests.
#![forbid(unsafe_code)]

mod browser;
mod burn;
mod command;
mod control_group;
mod foreign;
mod lines;
mod namespaces;
mod needs;
mod own_test;
mod perf_map;
mod process;
mod pythons;
mod rights;
mod sampler;
mod skip;
mod tool;
mod wait;

pub use browser::Browser;
pub use burn::burn;
pub use command::{find_command, perf, perf_agent};
pub use control_group::ControlGroup;
pub use foreign::{Foreign, children, send};
pub use lines::Lines;
pub use namespaces::{may_unshare, unshare};
pub use needs::{Missing, need, needed};
pub use own_test::{is_alone, own_test};
pub use perf_map::PerfMap;
pub use process::Process;
pub use pythons::{
    Python, pythons, pythons_of, pythons_with_trampolines, supported_pythons, switchable_pythons,
};
pub use rights::{has_btf, has_file_capabilities, has_seccomp_filter, may_profile};
pub use rustix::process::Signal;
pub use sampler::{has_sampler, waits_for_events};
pub use skip::skipped;
pub use tool::run_tool;
pub use wait::{PATIENCE, holds_within, until};
