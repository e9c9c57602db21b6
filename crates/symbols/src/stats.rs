//! Counters of a [`Symbolizer`](crate::Symbolizer).

/// Counts of a [`Symbolizer`](crate::Symbolizer).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Files read. A file that is read again after eviction counts again.
    pub files: u64,
    /// Files that could not be opened or are no 64-bit ELF files.
    pub unreadable_files: u64,
    /// Files without any symbol.
    pub nameless_files: u64,
    /// Files whose debug information is damaged or too large; their symbol tables were used.
    pub unreadable_debug_info: u64,
    /// Symbol tables that were read only in part, because they have too many entries.
    pub cut_symbol_tables: u64,
    /// Files of which an earlier run had kept what it learned, see [`Options::records`](crate::Options::records).
    pub recalled_files: u64,
    /// Files dropped from the cache.
    pub evicted: u64,
    /// Addresses looked up in files.
    pub addresses: u64,
    /// Of these, addresses without a name.
    pub unnamed: u64,
}
