//! Counters of events, on the threads of processes or on CPUs.
//!
//! [`CounterSpec`] names an event. [`ThreadCounters`] counts on every thread of some processes and on all threads and
//! processes that they start later. [`CpuCounters`] counts on CPUs. A [`Reading`] is the result.
//!
//! Opening never fails as a whole: an event that the machine lacks is reported with the reason, and the others count.
//! Threads and CPUs without their events are counted. The counts of ended threads and of CPUs that went offline are
//! kept. No thread is counted twice. Scaling, ratios and reports belong to the callers.
//!
//! ```no_run
//! use events::counting::{CounterSpec, Start, ThreadCounters};
//! # fn count() -> Result<(), Box<dyn std::error::Error>> {
//! let specs = CounterSpec::parse_list("cycles,instructions,page-faults")?;
//! let counters = ThreadCounters::open(&specs, &[4711], Start::Disabled);
//! counters.enable()?;
//! for reading in counters.read() {
//!     println!("{}: {:?}", reading.name, reading.outcome);
//! }
//! # Ok(())
//! # }
//! ```

mod cpus;
mod group;
mod reading;
mod spec;
mod threads;

pub use cpus::CpuCounters;
pub use group::Start;
pub use reading::{CountOutcome, Reading};
pub use spec::{CounterSpec, DEFAULT_COUNTERS, Unit, UnknownEvent};
pub use threads::ThreadCounters;
