//! Programs with known answers, and profiles of them.
//!
//! In: the programs and their true call chains, two profilers to run on them (perf-agent; `perf record`), and the
//! judgement of the profiles: complete and exact stacks, shares, time off the CPU, scheduler metrics. Guaranteed: a
//! judgement never relies on a profiler's own statements. Not here: any part of the product; measurements (crate `bench`).
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod blocking;
pub mod bpf_object;
pub mod check;
pub mod compile;
pub mod frame;
pub mod leftovers;
pub mod pairs;
pub mod pattern;
pub mod perf_output;
pub mod profiler;
pub mod programs;
pub mod roots;
pub mod run;
pub mod scheduler;
pub mod session;
pub mod shares;
pub mod table;
pub mod target;
pub mod verdict;
