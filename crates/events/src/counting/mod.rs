//! Events that only count, on the threads of processes or on CPUs.
//!
//! In: events by name ([`CounterSpec`]), counters on every thread of some processes and all that these start from then
//! on ([`ThreadCounters`]), counters on CPUs ([`CpuCounters`]), and what they counted ([`Reading`]).
//! Guaranteed: opening never fails as a whole. An event that the machine lacks is told with its reason and the others
//! count; threads and CPUs whose events could not be opened are counted. What was counted by threads that have ended
//! and on CPUs that went offline is kept. No thread is counted twice.
//! Not here: scaling, ratios and reports.
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
pub use reading::{Outcome, Reading};
pub use spec::{CounterSpec, DEFAULT_COUNTERS, Unit, UnknownEvent};
pub use threads::ThreadCounters;
