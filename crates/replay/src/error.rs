//! Why tables and mappings cannot be laid out.

/// Why tables or mappings could not be laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The table pool is full.
    #[error("no room for {words} more words of unwind tables and mappings")]
    TablePoolFull {
        /// 32-bit words asked for.
        words: u32,
    },
    /// More distinct unwind rules than a file may have.
    #[error("more than {0} distinct unwind rules in one file")]
    TooManyRules(usize),
}
