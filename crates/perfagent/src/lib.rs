//! The engine of perf-agent as a library. A program can capture everything that the command line can, with the same
//! validation, semantics and completeness ledger.
//!
//! Guaranteed: it never prints, never exits, installs no signal handler, and reads only three environment variables:
//! `PATH`, to find a command, and `XDG_CACHE_HOME` and `HOME`, to find the cache of unwind tables (unless
//! [`AgentBuilder::table_cache_dir`](Builder::table_cache_dir) names it) and that of fetched debug files. Where a program asks for debuginfod
//! servers, `DEBUGINFOD_URLS` (see [`AgentBuilder::debuginfod_from_env`](Builder::debuginfod_from_env)) and the usual variables of proxies and
//! certificates are read too; without a server, nothing is contacted. Log messages go through `tracing`, target `perfagent`.
#![forbid(unsafe_code)]

mod agent;
mod cancel;
mod capabilities;
mod capture_report;
mod child;
mod config;
mod difference;
pub mod doctor;
mod dotnet;
mod error;
mod event_stacks;
mod export;
mod failure;
mod finished;
mod health;
mod hooks;
mod injection;
mod java;
mod late_recording;
pub mod model;
mod naming;
mod output;
mod packages;
mod perf_data_file;
mod priority;
mod privilege;
mod processes;
mod python;
mod recorded;
mod recorded_files;
mod rotation;
mod runtime_socket;
mod session;
mod sources;
pub mod symbol_source;
mod symbolizer;
mod timeline;
mod unwinding;
mod usage;
mod written_profile;

pub use agent::{Agent, AgentBuilder};
pub use cancel::CancelToken;
pub use capture_report::Report;
pub use child::ChildHandle;
pub use config::{
    Builder, Config, DEFAULT_HEAP_RING_BYTES, DEFAULT_MAX_MEMORY_BYTES, DEFAULT_MAX_STACKS,
    DEFAULT_RING_BYTES, DEFAULT_SAMPLE_RATE_HZ, DEFAULT_TABLE_MEMORY, Debuginfod, DurationError, HeapMode,
    Labels, Namespaces, PmuFormat, ProcessInfo, PythonFrames, Targets, Unwind, parse_duration,
};
pub use difference::DifferenceFormat;
pub use error::{BoxError, Error, ErrorKind, LoadLog, TargetReason};
pub use event_stacks::{EventFrame, EventStack, EventStacks};
pub use finished::{CommandStatus, Ended, TargetProcess, Warning, WarningKind};
pub use formats::{Merge, Widths, amount};
pub use hooks::{CompiledTable, ExecutedProgram};
pub use injection::PythonStats;
pub use metrics::{
    ConsoleExporter, ContextSwitches, Counter, CounterState, CounterUnit, HardwareCounters, Histogram,
    Incomplete, JsonExporter, LatencyStats, MetricsExporter, MetricsSnapshot, ProcessMetrics, Scheduling,
};
pub use output::{
    AutoName, Drawing, FileTarget, MemorySink, OutputKind, OutputReport, Sink, Subject, TemporaryFiles,
    auto_name,
};
pub use perf_data_file::{PerfDataEvent, PerfDataFile};
pub use privilege::{raise_permitted, setcap_line};
pub use processes::process_of;
pub use profile::{grouped, visible};
pub use recorded::{Recording, SymbolizedRecording};
pub use recording::{Mode, OffCpuState, TrampolineCounts};
pub use report::{
    Advice, AdviceKind, Against, Change, Comparison, HeldBy, HotFunction, Hottest, Ledger, LockClass,
    LockReport, LockRow, Neighbours, Order, Part, ProcessLedger, StackShare, WallClock, hottest, label_keys,
    label_shares, limits as comparison_limits, lock_text, neighbours, ranked,
};
pub use rotation::Rotation;
pub use symbolizer::Symbolizer;
pub use written_profile::{NamingOutcome, WrittenProfile};

/// Makes the allocator of the whole process return memory to the system early, and use separate mappings for large blocks.
/// Meant for programs that do little else than capture.
pub fn keep_heap_small() {
    sys::memory::keep_heap_small();
}
