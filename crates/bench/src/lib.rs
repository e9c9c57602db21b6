//! Measurements of perf-agent beside other profilers.
//!
//! In: kernel time per sample, what Python adds to it, what events cost, slowdown, start-up, footprint, builds, real programs, time off the CPU, switches, scheduler metrics,
//! endurance, memory beside short processes, names of code, Go programs beside Go's own profile, and start-up over a synthetic fleet of processes. Guaranteed: profilers that are compared run during the same seconds or in
//! alternating windows. Not here: any part of the product; programs with known answers and how profilers are run on them
//! (crate `truth`).
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod aggregate;
pub mod big_libraries;
pub mod build;
pub mod churn;
pub mod cost;
pub mod crowd;
pub mod endurance;
pub mod event_cost;
pub mod fleet;
pub mod footprint;
pub mod go_profile;
pub mod heap;
pub mod latency;
pub mod offcpu;
pub mod real;
pub mod record;
pub mod scale;
pub mod scenario;
pub mod slowdown;
pub mod startup;
pub mod statistics;
pub mod switches;
pub mod symbolize;
mod tool;
mod window;
