//! What was fetched, and what was not.

/// Plain counters. They only grow, except for `cache_bytes`, which is a size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchFigures {
    /// Files that were in the cache.
    pub hits: u64,
    /// Files that were not.
    pub misses: u64,
    /// Files that a server sent and that are the right ones.
    pub fetched: u64,
    /// Files that no server has, those included of which that was known.
    pub not_found: u64,
    /// Files that were not fetched because a server could not be reached, failed, or the file could not be kept.
    pub errors: u64,
    /// Requests that were repeated.
    pub retries: u64,
    /// Files that did not arrive in time.
    pub timeouts: u64,
    /// Files that were sent and are not those that were asked for.
    pub mismatch: u64,
    /// Files that are larger than allowed.
    pub too_large: u64,
    /// Bytes of content received.
    pub bytes: u64,
    /// Files removed from the cache to make room.
    pub evicted: u64,
    /// Bytes in the cache when it was last looked through.
    pub cache_bytes: u64,
    /// Time that somebody waited for files, in ms.
    pub wait_ms: u64,
}

impl FetchFigures {
    /// What was added since an earlier reading.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            hits: self.hits - before.hits,
            misses: self.misses - before.misses,
            fetched: self.fetched - before.fetched,
            not_found: self.not_found - before.not_found,
            errors: self.errors - before.errors,
            retries: self.retries - before.retries,
            timeouts: self.timeouts - before.timeouts,
            mismatch: self.mismatch - before.mismatch,
            too_large: self.too_large - before.too_large,
            bytes: self.bytes - before.bytes,
            evicted: self.evicted - before.evicted,
            cache_bytes: self.cache_bytes,
            wait_ms: self.wait_ms - before.wait_ms,
        }
    }
}
