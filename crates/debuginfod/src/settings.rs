//! Settings of a fetcher.

use std::path::PathBuf;
use std::time::Duration;

use crate::server::Server;

/// No file may be larger than this.
const MAX_FILE: u64 = 1 << 30;

/// Settings of a [`Fetcher`](crate::Fetcher).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The servers, in the order in which they are asked.
    pub servers: Vec<Server>,
    /// The directory of the cache; the usual one if none is given.
    pub cache_dir: Option<PathBuf>,
    /// Bytes that the files of the cache may have together.
    pub cache_max: u64,
    /// Bytes that a file may have; never more than 1 GiB, nor than the cache may have.
    pub file_max: u64,
    /// The cache of elfutils' client, which is read where a file is not in ours, and never changed.
    pub client_cache: Option<PathBuf>,
    /// The time for one file, all servers and repetitions included.
    pub timeout: Duration,
}

impl Settings {
    /// Bytes of a cache without a setting of its own.
    pub const CACHE_MAX: u64 = 2 << 30;
    /// The time for a file without a setting of its own.
    pub const TIMEOUT: Duration = Duration::from_secs(30);

    /// Bytes that a file may have.
    pub(crate) fn max_file(&self) -> u64 {
        self.file_max.min(self.cache_max).min(MAX_FILE)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            cache_dir: None,
            cache_max: Self::CACHE_MAX,
            file_max: MAX_FILE,
            client_cache: None,
            timeout: Self::TIMEOUT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_be_as_large_as_the_lowest_of_the_limits() {
        let max = |cache_max, file_max| Settings { cache_max, file_max, ..Settings::default() }.max_file();
        assert_eq!([max(2 << 30, u64::MAX), max(1 << 20, u64::MAX), max(1 << 20, 7)], [MAX_FILE, 1 << 20, 7]);
    }
}
