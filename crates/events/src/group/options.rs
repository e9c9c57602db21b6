//! What a group follows.

use std::path::PathBuf;

use crate::monitor::Source;

const DEFAULT_PAGES: usize = 64;
const MAX_PAGES: usize = 1 << 16;

/// What a group follows, and how. Without a source it is the whole system.
#[derive(Clone, Debug, Default)]
pub struct GroupOptions {
    pub(super) sources: Vec<Source>,
    pub(super) cgroup_root: Option<PathBuf>,
    pub(super) tracing_dir: Option<PathBuf>,
    pub(super) enable_on_exec: bool,
    pages: usize,
}

impl GroupOptions {
    /// Follows this too. A source that is given twice counts once.
    #[must_use]
    pub fn source(mut self, source: Source) -> Self {
        self.sources.push(source);
        self
    }

    /// Where names of cgroups are looked up, instead of searching.
    #[must_use]
    pub fn perf_event_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.cgroup_root = Some(directory.into());
        self
    }

    /// The root of tracefs, instead of searching.
    #[must_use]
    pub fn tracing_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.tracing_dir = Some(directory.into());
        self
    }

    /// Counting begins when a followed thread calls exec: nothing that a waiting command does before its start is counted. CPUs have no exec.
    #[must_use]
    pub fn enable_on_exec(mut self, wanted: bool) -> Self {
        self.enable_on_exec = wanted;
        self
    }

    /// Pages of each CPU's ring for events that are sampled, rounded up to a power of two; 0 is 64.
    #[must_use]
    pub fn ring_pages(mut self, pages: usize) -> Self {
        self.pages = pages;
        self
    }

    pub(super) fn pages(&self) -> usize {
        if self.pages == 0 { DEFAULT_PAGES } else { self.pages.min(MAX_PAGES).next_power_of_two() }
    }
}
