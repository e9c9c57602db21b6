//! A place in the code of a function.

/// A place in a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFunction {
    /// An address in the function, as its entry.
    pub function: u64,
    /// Where the probe is.
    pub at: u64,
    /// Nothing but harmless instructions lies between the entry and the probe.
    pub is_entry: bool,
}
