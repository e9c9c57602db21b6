//! perf events on all CPUs, and the kernel's side-band records.
//!
//! In: which event to sample with ([`EventSpec`], [`probe_hardware_cycles`]), one such event per CPU with a BPF
//! program on each ([`Set`]), events that only count ([`counting`]), and what the kernel tells about new mappings, names, processes and threads
//! ([`SideBand`]); all of them follow CPUs that come and go ([`Present`]).
//! Guaranteed: on every error and on drop all that was opened is released; nothing needs libbpf or a kernel newer
//! than 4.8; record sizes and contents are checked, so that what is malformed is counted and nothing else.
//! Not here: the BPF program, what samples mean, and the processes that the records tell of.
//!
//! ```no_run
//! use events::{EventSpec, Options, Set, SideBand};
//! # fn attach(program: std::os::fd::BorrowedFd<'_>) -> Result<(), events::Error> {
//! let cpus = events::online_cpus()?;
//! let mut side_band = SideBand::open(&cpus, events::DEFAULT_RING_PAGES)?;
//! let mut set = Set::open_all(&EventSpec::cpu_clock(999), &cpus, Options { deferred_enable: true })?;
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
mod record;
mod set;
mod side_band;
mod spec;
mod throttle;

pub use cpus::{Followed, Present, cpu_list, online_cpus};
pub use error::Error;
pub use record::{Malformed, Mmap, Record, TimedRecord};
pub use set::{Options, Set};
pub use side_band::{DEFAULT_RING_PAGES, SideBand, SideBandCounts};
pub use spec::{EventKind, EventSpec, Rate, probe_hardware_cycles};

/// Now, on the clock of all records.
fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}
