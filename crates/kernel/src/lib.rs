//! The in-kernel part of perf-agent: loads the BPF programs of `bpf/` and owns their maps.
//!
//! In: loading with settings ([`Settings`], [`Kernel`]), unwind tables and process mappings in the table pool that
//! both sides share, the sums and messages that come back, counters. Guaranteed: the only room that knows libbpf;
//! memory of the maps is bounded by the settings; everything is detached and freed on drop, and by the kernel when
//! the process dies. Not here: perf events (crate `events`), what to record and when (crate `perfagent`).

mod abi;
mod batch;
mod control_words;
mod counters;
mod error;
mod extents;
mod layout;
mod life;
mod load;
mod log;
mod messages;
mod processes;
mod rules;
mod runs;
mod sampler_states;
mod sched_stats;
mod sections;
mod settings;
mod sides;
mod table_pool;
mod tables;
mod thread_iter;

pub use abi::{COUNTERS, Event, Frame, MappingKind, State, WalkEnd};
pub use counters::Counters;
pub use error::Error;
pub use life::{Life, LifeCounts, LifeEvent};
pub use load::{Kernel, Memory};
pub use messages::{Message, RawStack, StackMessage};
pub use processes::{KernelMapping, KernelProcess, RecordedProcess};
pub use sched_stats::{EventCount, ProcessId, ProcessStats};
pub use settings::{MAX_SPLIT_EVENTS, OffCpu, SchedStats, Settings};
pub use sides::{Cut, OpenStretch, Sums};
pub use tables::TableHandle;
