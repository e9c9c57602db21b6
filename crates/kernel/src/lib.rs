//! The in-kernel part of perf-agent: loads the BPF programs of `bpf/` and owns their maps.
//!
//! In: loading with settings ([`Settings`], [`Kernel`]), unwind tables and process mappings in the table pool that
//! both sides share, the sums and messages that come back, counters. Guaranteed: no other room knows libbpf; the settings
//! bound the memory of the maps; a drop detaches and frees everything, and so does the kernel when the process dies.
//! Not here: perf events (crate `events`), the choice of what to record and when (crate `perfagent`).

// Tests from within share a file with those from outside.
#[cfg(test)]
extern crate self as kernel;

mod abi;
mod attached;
mod batch;
mod code_message;
mod control_words;
mod counters;
mod error;
mod extents;
mod followed_threads;
mod frame;
mod go_locks;
mod headers;
mod heap;
mod heap_site;
mod layout;
mod life;
mod load;
mod lock_message;
mod log;
mod mapping_lists;
mod mappings;
mod memory;
mod messages;
mod nmi;
mod object;
mod process_record;
mod processes;
mod programs;
mod python;
mod python_walks;
mod raw_stack;
mod return_probes;
mod room;
mod rules;
mod runs;
mod sampler_states;
mod samplers;
mod sched_stats;
mod schema;
mod sections;
mod settings;
mod sides;
mod single;
mod stack_message;
mod sum_key;
mod table_pool;
mod table_shape;
mod table_uses;
mod tables;
mod thread_iter;
mod value_plan;
mod walk_end;

pub use attached::{Attached, InterpretedFrame, InterpretedWalk, LinkedStack, Role, SampledAt};
pub use code_message::CodeMessage;
pub use counters::{COUNTERS, Counters};
pub use error::Error;
pub use frame::Frame;
pub use go_locks::GoProgram;
pub use heap::{HeapCounter, HeapCounts, HeapProgram, MAX_HEAP_SITES};
pub use heap_site::{HeapSite, HeapWeight, SharedObjects};
pub use life::{Life, LifeCounts, LifeEvent};
pub use load::Kernel;
pub use lock_message::{LockKind, LockMessage};
pub use mappings::{KernelMapping, MappingKind};
pub use memory::{Memory, ProcessPlaces, TableRoom};
pub use messages::{Message, StackPart, decode_message};
pub use nmi::{kernel_locks_may_be_followed, locks_notice_their_cpu, nmi_may_sample, probes_may_sample};
pub use process_record::RecordedProcess;
pub use processes::{KernelProcess, ProcessUse};
pub use python::Python;
pub use python_walks::{PythonEnd, PythonWalks};
pub use raw_stack::RawStack;
pub use return_probes::return_probes_pass_filters;
pub use room::TableTrial;
pub use sampler_states::Ticks;
pub use sched_stats::{EventCount, ProcessId, ProcessStats};
pub use schema::{Fold, Schema};
pub use sections::VALUE_SLOTS;
pub use settings::{
    ChosenCgroup, FurtherEvent, MAX_FURTHER_EVENTS, MAX_SPLIT_EVENTS, OffCpu, SampledIn, SchedStats, Settings,
};
pub use sides::{Cut, OpenStretch, Sums};
pub use single::SingleSample;
pub use stack_message::StackMessage;
pub use sum_key::{Event, State};
pub use table_shape::TableShape;
pub use tables::TableHandle;
pub use value_plan::{MAX_VALUE_STEPS, ProbeRegister, ValueFrom, ValuePlan};
pub use walk_end::WalkEnd;
