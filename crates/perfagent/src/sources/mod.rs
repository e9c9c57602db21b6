//! Sources: what makes the capture take stacks or counts.
//!
//! A source opens its events disabled, so that all can be enabled together; it follows CPUs that come and go, disables its events, and
//! tells what it knows about losses. Stacks and sums themselves arrive through the kernel side's ring and tables (`crate::kernel`), whatever
//! the source. A new source is one file here and one line in `registry.rs`.

mod counted_event;
mod cpu_clock;
mod cpus;
mod go_locks;
mod heap;
mod not_run;
mod probe;
mod program_event;
mod registry;
mod sampled_set;
pub(crate) mod sched_stats;
mod scheduler;
mod source;
mod tracepoint;
mod value;

pub(crate) use cpus::{CPU_CHECK_INTERVAL, CpuFollower};
pub(crate) use registry::Sources;
pub(crate) use source::Opening;
