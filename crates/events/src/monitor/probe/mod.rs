//! Probes as events: functions of the kernel and of files, their returns, and USDT probes.
//!
//! In: [`Probe`], what to probe; [`ProbeEvent`], one that programs of BPF run at; [`prepare`], which makes the kernel know it; [`remove_stale`], which removes what dead processes have left behind.
//! A probe without arguments and filter that follows no thread needs no name: the kernel's event source for probes opens it, and it is gone with its
//! descriptors. All others are definitions in tracefs, in the group `perf_agent`, removed when they are dropped. (An event of that source which
//! children inherit counts nothing, so processes and threads need definitions too.)
//! Not here: where a function is in its file (crate `probes`), opening events and their filters.

mod argument_place;
mod arguments;
mod definition;
mod function_place;
mod function_probe;
mod holder;
mod inherited;
mod other_file;
mod owner;
mod pmu;
mod prepared;
mod probe_event;
mod probe_spec;
mod sites;
mod stale;
mod usdt_argument;

pub use argument_place::{ArgumentFrom, ArgumentPlace};
pub use function_place::FunctionPlace;
pub use function_probe::FunctionProbe;
pub use other_file::OtherFile;
pub use probe_event::ProbeEvent;
pub use probe_spec::Probe;
pub use stale::remove_stale;

pub(crate) use holder::hold_events;
pub(crate) use prepared::{Prepared, prepare};
