//! What was counted beside the sums of an allocation profile.

/// Calls of allocators, and what is missing of them. Of a capture, not of an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapCounts {
    /// Calls of the probed functions.
    pub calls: u64,
    /// Frees of recorded objects.
    pub freed: u64,
    /// Frees of objects that were not recorded, as of those from before the capture.
    pub frees_unknown: u64,
    /// Allocations that the allocator refused.
    pub failed: u64,
    /// Objects that did not fit into the table of live objects. They count as allocated, and not as in use.
    pub untracked: u64,
    /// And their bytes.
    pub untracked_bytes: u64,
    /// Objects whose address was given out again though no free was seen. They count as freed.
    pub frees_unseen: u64,
    /// Calls that did not fit into the table of calls that go on.
    pub calls_lost: u64,
    /// Calls that ended by an exception or a jump, so that they gave no object.
    pub unreturned: u64,
    /// Samples of an allocator whose arguments could not be read.
    pub unreadable: u64,
    /// The allocators whose own samples were recorded, so that values are estimates. Empty: calls were recorded.
    pub samplers: Vec<&'static str>,
    /// What the probes have cost, in thousandths of the CPU time that the targets have used without that; an estimate from the number of calls. None: not known.
    pub cost_permille: Option<u64>,
}

impl HeapCounts {
    /// Keys and values of the ledger; those that are usually 0 only if they are not.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let always = [("heap.calls", self.calls), ("heap.freed", self.freed)];
        let others = [
            ("heap.frees_unknown", self.frees_unknown),
            ("heap.frees_unseen", self.frees_unseen),
            ("heap.failed", self.failed),
            ("heap.untracked", self.untracked),
            ("heap.untracked_bytes", self.untracked_bytes),
            ("heap.calls_lost", self.calls_lost),
            ("heap.unreturned", self.unreturned),
            ("heap.unreadable", self.unreadable),
            ("heap.cost_permille", self.cost_permille.unwrap_or(0)),
        ];
        always.into_iter().chain(others.into_iter().filter(|(_, count)| *count > 0))
    }
}
