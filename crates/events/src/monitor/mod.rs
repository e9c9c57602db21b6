//! Events as a stream: tracepoints, probes, software, hardware, cache and raw events, breakpoints; decoded and in order of time.
//!
//! A [`MonitorBuilder`] says what is followed: the system, processes, threads, cgroups. The [`EventMonitor`] registers events
//! ([`EventRequest`], or a line of text by [`parse_event`]) and delivers [`Item`]s to a callback. Registrations, filters and stopping work
//! while it runs, also from inside of the callback.
//!
//! All items of all CPUs come in order of time; what could not is flagged. Losses are counted for each event and CPU: delivered and lost
//! together are what happened, on kernels from 6.0 on exactly. A slow callback leads to losses in the kernel, not to memory that grows.
//! Counters that are only read are in [`counting`](crate::counting) and [`group`](crate::group).
//!
//! ```no_run
//! use events::monitor::{Body, EventRequest, MonitorBuilder, Source};
//! let monitor = MonitorBuilder::default().source(Source::Pid(4711)).build()?;
//! monitor.register(EventRequest::tracepoint("sched:sched_switch").filter("prev_prio < 100"))?;
//! monitor.run(|item| {
//!     if let Body::Event(fields) = &item.body {
//!         println!("{} {:?}", item.meta.time_ns, fields.get("next_comm"));
//!     }
//! })?;
//! # Ok::<(), events::monitor::MonitorError>(())
//! ```

mod available;
mod builder;
mod cgroup;
mod counts;
mod delivery;
pub(crate) mod error;
mod event_monitor;
mod format_of;
pub(crate) mod grammar;
mod item;
pub(crate) mod merge;
mod names;
pub(crate) mod opening;
pub(crate) mod place;
mod pmus;
pub(crate) mod probe;
pub(crate) mod request;
pub(crate) mod resolved;
pub(crate) mod rings;
mod state;
mod target;
mod tracefs;

pub use available::is_available;
pub use builder::{Clock, MonitorBuilder, OnSourcesExited};
pub use cgroup::processes_in;
pub use counts::{EventStats, MonitorStats};
pub use error::MonitorError;
pub use event_monitor::EventMonitor;
pub use format_of::format_of;
pub use grammar::{EventName, EventText, EventTextError, parse_event, read_event};
pub use item::{Body, DecodeError, Decoded, Decoder, EventId, Fields, Item, Meta};
pub use names::{NamedEvent, named_events};
pub use place::Source;
pub use pmus::pmu_events;
pub use probe::{
    ArgumentFrom, ArgumentPlace, FunctionPlace, FunctionProbe, OtherFile, Probe, ProbeEvent, remove_stale,
};
pub use request::{Access, EventRequest};
pub use tracefs::Tracefs;

pub use perf_abi::{RecordBody, Task};
pub use probes::shown_path;
pub use tracepoints::{Field, Format, Value};
