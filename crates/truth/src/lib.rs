//! Programs with known answers, and what profilers say about them.
//!
//! In: the programs and their true call chains, two profilers to run on them (perf-agent; `perf record`), and the
//! measurements made with both: completeness, exactness, shares, cost, slowdown, start-up, footprint, time off
//! the CPU, scheduler metrics. Guaranteed: the
//! judgement never rests on a profiler's own word. Not here: any part of the product.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod blocking;
pub mod check;
pub mod compile;
pub mod cost;
pub mod endurance;
pub mod footprint;
pub mod frame;
pub mod latency;
pub mod leftovers;
pub mod pattern;
pub mod profiler;
pub mod programs;
pub mod real;
pub mod roots;
pub mod run;
pub mod session;
pub mod shares;
pub mod slowdown;
pub mod startup;
pub mod switches;
pub mod table;
pub mod target;
mod tool;
pub mod tries;
pub mod verdict;
