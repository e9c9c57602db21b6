//! Figures about symbolization as a whole. They only grow.

/// Plain counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Places that were named.
    pub named: u64,
    /// Places that were looked up and have no name.
    pub unnamed: u64,
    /// Of both, places whose names were known from earlier intervals.
    pub from_cache: u64,
    /// Batches of kernel addresses.
    pub kernel_batches: u64,
    /// Kernel addresses in these batches.
    pub kernel_input_ips: u64,
    /// Batches of kernel addresses that no source could answer.
    pub kernel_batch_failures: u64,
    /// Kernel addresses without a name.
    pub kernel_raw_addr_frames: u64,
    /// Panics of sources.
    pub panics: u64,
}

/// What was looked up in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lookup {
    /// User code.
    User,
    /// Kernel code.
    Kernel,
}
