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
        self.cache_max.min(MAX_FILE)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self { servers: Vec::new(), cache_dir: None, cache_max: Self::CACHE_MAX, timeout: Self::TIMEOUT }
    }
}
