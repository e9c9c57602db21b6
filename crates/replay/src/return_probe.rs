//! A return address that the kernel replaced.

/// A function whose return the kernel probes: its return address was replaced by the page of uprobes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReturnProbe {
    /// The page; 0: there is none.
    pub page: u64,
    /// Where the return address is.
    pub at: u64,
    /// The return address before it was replaced.
    pub to: u64,
}
