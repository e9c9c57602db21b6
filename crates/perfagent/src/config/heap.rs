//! How allocations are recorded.

/// How allocations are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HeapMode {
    /// The samples of allocators that sample themselves. Of others every allocation and every free, until that has cost the targets more than 5 % of their CPU time; from then on allocations in a short window of
    /// each second.
    #[default]
    WhileCheap,
    /// Every allocation and every free, whatever that costs the targets.
    Exact,
}

impl HeapMode {
    /// Reads the value of the option: whether allocations are recorded, and how. `Err`: what is wrong.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>, String> {
        match text {
            "true" => Ok(Some(Self::WhileCheap)),
            "exact" => Ok(Some(Self::Exact)),
            "false" => Ok(None),
            _ => Err(format!("`{text}` is not exact")),
        }
    }
}
