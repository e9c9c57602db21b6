//! The state of the profiler itself.

use std::time::Duration;

use crate::Histogram;

/// The state of the profiler itself: what it recorded, lost and used. Causes, results and programs are from small fixed
/// sets.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Health {
    /// Version of the profiler.
    pub version: String,
    /// By capture mode.
    pub modes: Vec<ModeHealth>,
    /// Distinct frames with a name. Frames whose name is still being looked up are in neither number.
    pub frames_symbolized: u64,
    /// Distinct frames without a name.
    pub frames_unsymbolized: u64,
    /// Statistics of symbolization, if known.
    pub symbolize: Option<SymbolizeHealth>,
    /// Fetches from debuginfod, if servers are configured.
    pub debuginfod: Option<DebuginfodHealth>,
    /// CPU time of the profiler.
    pub agent_cpu: Duration,
    /// Time in each BPF program, if the kernel measures it.
    pub bpf_cpu: Vec<(String, Duration)>,
    /// Resident memory of the profiler, if known.
    pub resident_bytes: Option<u64>,
    /// Kernel memory of the BPF maps, if known.
    pub bpf_memory_bytes: Option<u64>,
}

impl Health {
    /// The state of a profiler that has done nothing yet.
    #[must_use]
    pub fn new(version: impl Into<String>) -> Self {
        Self { version: version.into(), ..Self::default() }
    }
}

/// What one capture mode recorded and lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModeHealth {
    /// Name of the mode: `on-cpu`.
    pub mode: String,
    /// Samples recorded.
    pub samples: u64,
    /// Lost samples by cause.
    pub lost: Vec<(String, u64)>,
    /// Walks of user stacks by the cause of their end.
    pub walks: Vec<(String, u64)>,
}

impl ModeHealth {
    /// The state of a mode that has recorded nothing yet.
    #[must_use]
    pub fn new(mode: impl Into<String>) -> Self {
        Self { mode: mode.into(), ..Self::default() }
    }
}

/// Statistics of symbolization.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SymbolizeHealth {
    /// Batches of kernel addresses.
    pub kernel_batches: u64,
    /// Kernel addresses looked up.
    pub kernel_input_ips: u64,
    /// Failed batches.
    pub kernel_batch_failures: u64,
    /// Kernel frames without a name.
    pub kernel_raw_addr_frames: u64,
    /// Time per lookup of user code.
    pub user: Histogram,
    /// Time per lookup of kernel code.
    pub kernel: Histogram,
}

/// Fetches from debuginfod servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DebuginfodHealth {
    /// Fetches by result.
    pub fetches: Vec<(String, u64)>,
    /// Bytes fetched.
    pub bytes: u64,
}
