//! perf events on all CPUs, and the kernel's records of mappings.
//!
//! [`EventSpec`] names the event to sample with ([`probe_hardware_cycles`] chooses one). [`PerfEventSet`] opens it on every CPU
//! and attaches a BPF program. [`counting`] has events that only count, [`group`] those that are counted together. [`stack_reader`] samples registers and stacks. [`SideBand`] reads the kernel's records of new
//! executable mappings of all processes. [`monitor`] delivers events of any kind, decoded and in order of time. The first three follow CPUs that go offline and come back ([`Present`]).
//!
//! An error and a drop release everything that was opened. Nothing needs libbpf or a kernel newer than 4.8. The sizes
//! and contents of records are checked; malformed records are counted and ignored. The BPF program, the meaning of
//! samples and the state of processes belong to the callers.
//!
//! ```no_run
//! use events::{EventSpec, Options, PerfEventSet, SideBand};
//! # fn attach(program: std::os::fd::BorrowedFd<'_>) -> Result<(), events::Error> {
//! let cpus = events::online_cpus()?;
//! let mut side_band = SideBand::open(&cpus, events::DEFAULT_RING_PAGES)?;
//! let mut set = PerfEventSet::open_all(&EventSpec::cpu_clock(999), &cpus, Options { deferred_enable: true })?;
//! set.attach(program)?;
//! set.enable()?;
//! let mut records = Vec::new();
//! side_band.drain(&mut records);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod counting;
mod cpus;
mod error;
pub mod flight_recorder;
pub mod group;
pub mod monitor;
mod record;
mod set;
mod side_band;
mod spec;
pub mod stack_reader;
mod throttle;

pub use cpus::{Followed, Present, cpu_list, online_cpus};
pub use error::Error;
pub use record::{Malformed, Mmap, Record, Task, TimedRecord, parse as parse_record};
pub use set::{Options, PerfEventSet};
pub use side_band::{DEFAULT_RING_PAGES, SideBand, SideBandCounts};
pub use spec::{EventKind, EventSpec, Rate, probe_hardware_cycles};
