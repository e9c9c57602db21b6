//! The options of a monitor.

use std::path::PathBuf;
use std::time::Duration;

use perf_abi::EventAttr;
use rustix::time::ClockId;

use super::error::MonitorError;
use super::event_monitor::{EventMonitor, Settings};
use super::opening::Common;
use super::place::{Source, Sources};
use super::probe::remove_stale;
use super::rings::Rings;
use super::state::State;
use super::tracefs::Tracefs;

const DEFAULT_PAGES: usize = 64;
const MAX_PAGES: usize = 1 << 16;
const DEFAULT_QUEUE: usize = 64 << 20;
const DEFAULT_DELAY: Duration = Duration::from_millis(100);

/// The clock of all times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`.
    #[default]
    Monotonic,
    /// `CLOCK_MONOTONIC_RAW`.
    MonotonicRaw,
}

impl Clock {
    fn id(self) -> ClockId {
        match self {
            Self::Monotonic => ClockId::Monotonic,
            Self::MonotonicRaw => ClockId::MonotonicRaw,
        }
    }
}

/// What happens when all that is followed has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnSourcesExited {
    /// The run ends.
    #[default]
    Stop,
    /// It goes on.
    Stay,
}

/// Makes an [`EventMonitor`].
#[derive(Clone, Debug, Default)]
pub struct MonitorBuilder {
    sources: Vec<Source>,
    default_attr: Option<EventAttr>,
    cgroup_root: Option<PathBuf>,
    tracing_dir: Option<PathBuf>,
    pages: usize,
    clock: Clock,
    queue_bytes: Option<usize>,
    max_delay: Option<Duration>,
    on_exited: OnSourcesExited,
    mmaps: bool,
}

impl MonitorBuilder {
    /// Follows this too; without any source the whole system. A source that is given twice counts once.
    #[must_use]
    pub fn source(mut self, source: Source) -> Self {
        self.sources.push(source);
        self
    }

    /// The attribute of registrations that bring none.
    #[must_use]
    pub fn default_attr(mut self, attr: EventAttr) -> Self {
        self.default_attr = Some(attr);
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

    /// Pages of each CPU's ring, rounded up to a power of two; 0 is 64.
    #[must_use]
    pub fn ring_pages(mut self, pages: usize) -> Self {
        self.pages = pages;
        self
    }

    /// The clock of all times.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Bytes of records that may wait for their turn, 64 MiB by default.
    #[must_use]
    pub fn queue_bytes(mut self, bytes: usize) -> Self {
        self.queue_bytes = Some(bytes);
        self
    }

    /// The longest time for which a record waits for older ones of other CPUs, 100 ms by default.
    #[must_use]
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.max_delay = Some(delay);
        self
    }

    /// What happens when all that is followed has ended.
    #[must_use]
    pub fn on_sources_exited(mut self, what: OnSourcesExited) -> Self {
        self.on_exited = what;
        self
    }

    /// Delivers records of new executable mappings too.
    #[must_use]
    pub fn mmaps(mut self, wanted: bool) -> Self {
        self.mmaps = wanted;
        self
    }

    /// Opens the rings, with as many open files as this process may have. The monitor is stopped and has no events. Probes that processes of this library have left behind are removed, where that is
    /// permitted.
    ///
    /// # Errors
    /// [`MonitorError`] if a source is not there, an attribute contradicts itself, or the rings cannot be had.
    pub fn build(self) -> Result<EventMonitor, MonitorError> {
        if let Some(attr) = &self.default_attr {
            attr.check()?;
        }
        sys::usage::raise_open_files();
        if let Ok(tracefs) = Tracefs::find(self.tracing_dir.as_deref()) {
            let _needs_privileges = remove_stale(&tracefs);
        }
        let pages =
            if self.pages == 0 { DEFAULT_PAGES } else { self.pages.min(MAX_PAGES).next_power_of_two() };
        let sources = Sources::open(&self.sources, self.cgroup_root.as_deref())?;
        let clock = self.clock.id();
        let ring_bytes = pages * sys::usage::page_size();
        let common = Common { clockid: clock as i32, ring_bytes, counts_lost: false };
        let rings = Rings::open(&sources, &crate::online_cpus()?, pages, common, self.mmaps)?;
        let settings = Settings {
            clock,
            queue_bytes: self.queue_bytes.unwrap_or(DEFAULT_QUEUE),
            max_delay: self.max_delay.unwrap_or(DEFAULT_DELAY),
            on_exited: self.on_exited == OnSourcesExited::Stop,
        };
        Ok(EventMonitor::of(State::new(rings, sources, self.tracing_dir, self.default_attr), settings))
    }
}
