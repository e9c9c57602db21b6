//! The kinds of outputs of a capture.

/// What an output contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum OutputKind {
    /// The on-CPU profile, or that of an event, gzip-compressed pprof: one file for each event if several are sampled, `NAME.EVENT.EXT`.
    CpuProfile,
    /// The off-CPU profile, gzip-compressed pprof.
    OffCpuProfile,
    /// On-CPU and off-CPU time as one profile, gzip-compressed pprof.
    WallProfile,
    /// The profile of allocations, gzip-compressed pprof.
    HeapProfile,
    /// The report of the metrics as text.
    PmuReport,
    /// The report of the metrics as JSON.
    PmuJson,
    /// Which locks threads wait for, as text.
    LockReport,
    /// The same as a profile of contentions and their delay, gzip-compressed pprof.
    LockProfile,
    /// Folded stacks, one file for each profile: `NAME.MODE.EXT` if there are several, `NAME.EVENT.EXT` of several events. A sink, a device or standard output gets the first
    /// profile.
    Folded,
    /// The same as an SVG flame graph.
    FlameGraph,
    /// The same as a page to explore, in HTML.
    Html,
    /// The recording, from which all other outputs can be made later.
    Recording,
    /// Every sample with its time, as `perf` records them: perf.data. Written while the capture runs.
    PerfData,
}

impl OutputKind {
    /// The option of the command line that names this output.
    #[must_use]
    pub fn option(self) -> &'static str {
        match self {
            Self::CpuProfile => "--profile-output",
            Self::OffCpuProfile => "--offcpu-output",
            Self::WallProfile => "--wall-output",
            Self::HeapProfile => "--heap-output",
            Self::PmuReport | Self::PmuJson => "--pmu-output",
            Self::LockReport | Self::LockProfile => "--locks-output",
            Self::Folded => "--folded-output",
            Self::FlameGraph => "--flamegraph-output",
            Self::Html => "--html-output",
            Self::Recording => "--recording-output",
            Self::PerfData => "--perf-data-output",
        }
    }

    /// Whether a terminal cannot show it.
    #[must_use]
    pub fn is_binary(self) -> bool {
        matches!(
            self,
            Self::CpuProfile
                | Self::OffCpuProfile
                | Self::WallProfile
                | Self::LockProfile
                | Self::HeapProfile
                | Self::Recording
                | Self::PerfData
        )
    }

    /// The parts of an automatic name that depend on the kind: the word before the extension, and the extension.
    pub(super) fn auto_parts(self) -> (&'static str, &'static str) {
        match self {
            Self::CpuProfile => ("on-cpu", "pb.gz"),
            Self::OffCpuProfile => ("off-cpu", "pb.gz"),
            Self::WallProfile => ("wall", "pb.gz"),
            Self::HeapProfile => ("heap", "pb.gz"),
            Self::PmuReport => ("pmu", "txt"),
            Self::PmuJson => ("pmu", "json"),
            Self::LockReport => ("locks", "txt"),
            Self::LockProfile => ("locks", "pb.gz"),
            Self::Folded => ("on-cpu", "folded"),
            Self::FlameGraph => ("on-cpu", "svg"),
            Self::Html => ("on-cpu", "html"),
            Self::Recording => ("capture", "perf-agent"),
            Self::PerfData => ("capture", "data"),
        }
    }

    /// Whether a capture that is cut writes this output for each interval.
    pub(crate) fn is_of_intervals(self) -> bool {
        !matches!(self, Self::PmuReport | Self::PmuJson)
    }
}
