//! The perf trampolines of CPython in the processes of a capture (`--inject-python`): which processes are switched on, when, and what the user
//! is told.
//!
//! Guaranteed: whatever was switched on is switched off again when the [`Injector`] ends or is dropped; processes that turn up later are switched
//! on threads of their own, so the thread of the capture never waits for one. perf-agent itself and the processes that it descends from are
//! never touched, nor the first process of the machine unless it was named.
//! Not here: how a process is switched (crate `python_trampoline`), and which processes run an interpreter (`python`).

#[cfg(target_arch = "x86_64")]
mod engine;
#[cfg(not(target_arch = "x86_64"))]
#[path = "no_engine.rs"]
mod engine;
mod injector;
mod late;
mod off_limits;
mod outcome;
mod refused;
mod remedy;
mod stats;

pub(crate) use injector::{Injector, Switching};
pub use stats::PythonStats;
