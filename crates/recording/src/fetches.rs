//! What was fetched from debuginfod servers for the names of a recording, and what was not.

use serde::{Deserialize, Serialize};

/// Plain counters. They only grow, except for `cache_bytes`, which is a size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetches {
    /// Files that were in the cache.
    pub hits: u64,
    /// Files that were not.
    pub misses: u64,
    /// Files that a server sent and that are the right ones.
    pub fetched: u64,
    /// Files that no server has, those included of which that was known.
    pub not_found: u64,
    /// Files not fetched because a server could not be reached, failed, or the file could not be kept.
    pub errors: u64,
    /// Requests that were repeated.
    pub retries: u64,
    /// Files that did not arrive in time.
    pub timeouts: u64,
    /// Files that were sent and are others than those asked for.
    pub mismatch: u64,
    /// Files that are larger than allowed.
    pub too_large: u64,
    /// Bytes of content received.
    pub bytes: u64,
    /// Files removed from the cache to make room.
    pub evicted: u64,
    /// Bytes in the cache when it was last looked through.
    pub cache_bytes: u64,
    /// Modules whose frames stay without names because their debug file is missing.
    pub refused_mappings: u64,
    /// Time that somebody waited for files, in ms.
    pub wait_ms: u64,
}

impl Fetches {
    /// What was added since an earlier reading.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            hits: self.hits.saturating_sub(before.hits),
            misses: self.misses.saturating_sub(before.misses),
            fetched: self.fetched.saturating_sub(before.fetched),
            not_found: self.not_found.saturating_sub(before.not_found),
            errors: self.errors.saturating_sub(before.errors),
            retries: self.retries.saturating_sub(before.retries),
            timeouts: self.timeouts.saturating_sub(before.timeouts),
            mismatch: self.mismatch.saturating_sub(before.mismatch),
            too_large: self.too_large.saturating_sub(before.too_large),
            bytes: self.bytes.saturating_sub(before.bytes),
            evicted: self.evicted.saturating_sub(before.evicted),
            cache_bytes: self.cache_bytes,
            refused_mappings: self.refused_mappings.saturating_sub(before.refused_mappings),
            wait_ms: self.wait_ms.saturating_sub(before.wait_ms),
        }
    }

    /// The fetches of this interval and a later one.
    #[must_use]
    pub fn and(&self, later: &Self) -> Self {
        Self {
            hits: self.hits.saturating_add(later.hits),
            misses: self.misses.saturating_add(later.misses),
            fetched: self.fetched.saturating_add(later.fetched),
            not_found: self.not_found.saturating_add(later.not_found),
            errors: self.errors.saturating_add(later.errors),
            retries: self.retries.saturating_add(later.retries),
            timeouts: self.timeouts.saturating_add(later.timeouts),
            mismatch: self.mismatch.saturating_add(later.mismatch),
            too_large: self.too_large.saturating_add(later.too_large),
            bytes: self.bytes.saturating_add(later.bytes),
            evicted: self.evicted.saturating_add(later.evicted),
            cache_bytes: later.cache_bytes,
            refused_mappings: self.refused_mappings.saturating_add(later.refused_mappings),
            wait_ms: self.wait_ms.saturating_add(later.wait_ms),
        }
    }

    /// Names and values in the order of the ledger.
    #[must_use]
    pub fn entries(&self) -> [(&'static str, u64); 14] {
        [
            ("hits", self.hits),
            ("misses", self.misses),
            ("fetched", self.fetched),
            ("not_found", self.not_found),
            ("errors", self.errors),
            ("retries", self.retries),
            ("timeouts", self.timeouts),
            ("mismatch", self.mismatch),
            ("too_large", self.too_large),
            ("bytes", self.bytes),
            ("evicted", self.evicted),
            ("cache_bytes", self.cache_bytes),
            ("refused_mappings", self.refused_mappings),
            ("wait_ms", self.wait_ms),
        ]
    }
}
