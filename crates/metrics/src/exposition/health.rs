//! How the profiler itself is.

use std::time::Duration;

use crate::Histogram;

/// How the profiler itself is: what it recorded, lost and used. Causes, results and programs are from small fixed sets.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Health {
    /// Version of the profiler.
    pub version: String,
    /// By mode of capture.
    pub modes: Vec<ModeHealth>,
    /// Distinct frames that have a name. Those whose name is still being looked for are in neither figure.
    pub frames_symbolized: u64,
    /// Distinct frames for which no name was found.
    pub frames_unsymbolized: u64,
    /// How names are found, where that is known.
    pub symbolize: Option<SymbolizeHealth>,
    /// Fetches, if servers are configured.
    pub debuginfod: Option<DebuginfodHealth>,
    /// CPU time of the profiler.
    pub agent_cpu: Duration,
    /// Time in each BPF program, where the kernel measures it.
    pub bpf_cpu: Vec<(String, Duration)>,
    /// Resident memory of the profiler, where it is known.
    pub resident_bytes: Option<u64>,
    /// Kernel memory of the BPF maps, where it is known.
    pub bpf_memory_bytes: Option<u64>,
}

impl Health {
    /// Of a profiler that has done nothing yet.
    #[must_use]
    pub fn new(version: impl Into<String>) -> Self {
        Self { version: version.into(), ..Self::default() }
    }
}

/// What one mode of capture recorded and lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModeHealth {
    /// Name of the mode, as `on-cpu`.
    pub mode: String,
    /// Samples recorded.
    pub samples: u64,
    /// Samples lost by cause.
    pub lost: Vec<(String, u64)>,
    /// Walks of user stacks by cause of their end.
    pub walks: Vec<(String, u64)>,
}

impl ModeHealth {
    /// Of a mode that has recorded nothing yet.
    #[must_use]
    pub fn new(mode: impl Into<String>) -> Self {
        Self { mode: mode.into(), ..Self::default() }
    }
}

/// How names are found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SymbolizeHealth {
    /// Batches of kernel addresses.
    pub kernel_batches: u64,
    /// Kernel addresses to be named.
    pub kernel_input_ips: u64,
    /// Batches that failed.
    pub kernel_batch_failures: u64,
    /// Kernel frames left without a name.
    pub kernel_raw_addr_frames: u64,
    /// Times to find names of user code.
    pub user: Histogram,
    /// Times to find names of kernel code.
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
