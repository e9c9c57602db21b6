//! What could not be read.

/// Counts of a [`crate::Reader`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Units that are damaged or too long.
    pub refused_units: u64,
    /// Split units whose file is not there.
    pub missing_split_units: u64,
}
