//! Events that are counted together: whenever one of a group is counted, all are.
//!
//! A [`GroupEvent`] names an event: any that [`monitor`](crate::monitor) knows, also tracepoints and probes. An [`EventGroup`] opens all at
//! each place: for each CPU of the system or of a cgroup, or for each thread of a process, whose children inherit them. A
//! [`GroupReading`] has what was counted, by place and summed, scaled up where the processor had too few counters. Events with a
//! period are sampled too: [`EventGroup::run`] delivers their records, each with the values of the whole group. A [`GatedChild`] is a command
//! that waits until the group is open.
//!
//! Opening succeeds as a whole or leaves nothing behind. Threads that may have been missed, places that could not be read and records
//! that were lost are counted. CPUs that come online later are not counted. Events that are opened one by one,
//! so that a refused one does not matter, are in [`counting`](crate::counting).
//!
//! ```no_run
//! use events::group::{EventGroup, GroupEvent, GroupOptions};
//! use events::monitor::Source;
//! let events = [GroupEvent::parse("cycles")?, GroupEvent::parse("instructions")?];
//! let mut group = EventGroup::open(&events, &GroupOptions::default().source(Source::Pid(4711)))?;
//! group.enable()?;
//! std::thread::sleep(std::time::Duration::from_secs(1));
//! group.disable()?;
//! let sums = group.read().sums;
//! println!("{:?} instructions in {:?} cycles", sums[1].scaled(), sums[0].scaled());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod event;
mod event_group;
mod opening;
mod options;
mod part;
mod reading;
mod recording;

pub use event::GroupEvent;
pub use event_group::EventGroup;
pub use options::GroupOptions;
pub use reading::{Counted, GroupReading, NotCounted, PartReading};
pub use sys::gate::GatedChild;

pub use recording::{GroupRecord, GroupRun, GroupStopper};
