//! Where a capture writes to: targets, their validation before anything is attached, names, and files that appear
//! complete or not at all.
//!
//! Guaranteed: a regular file is replaced by rename only after all of its bytes were accepted by the file system; an
//! automatically named file never replaces another; nothing half-written stays behind, whether the process fails, is
//! interrupted, or (on file systems with unnamed files) is killed.
//! Not here: what is written (crate `formats`) and when (the capture).

mod check;
mod file;
mod names;
mod sink;
mod temporary;

use std::path::{Path, PathBuf};

pub(crate) use check::{access, check_all};
pub(crate) use file::{Finished, OutputFile, publish_all};
pub use names::{AutoName, Subject, auto_name};
pub use sink::{MemorySink, Sink};
pub use temporary::TemporaryFiles;

/// What an output contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum OutputKind {
    /// The on-CPU profile, gzip-compressed pprof.
    CpuProfile,
    /// The off-CPU profile, gzip-compressed pprof.
    OffCpuProfile,
    /// On-CPU and off-CPU time as one profile, gzip-compressed pprof.
    WallProfile,
    /// The report of the metrics as text.
    PmuReport,
    /// The report of the metrics as JSON.
    PmuJson,
    /// The on-CPU profile (the off-CPU one if that is the only one) as folded stacks.
    Folded,
    /// The same as an SVG flame graph.
    FlameGraph,
}

impl OutputKind {
    /// The option of the command line that names this output.
    #[must_use]
    pub fn option(self) -> &'static str {
        match self {
            Self::CpuProfile => "--profile-output",
            Self::OffCpuProfile => "--offcpu-output",
            Self::WallProfile => "--wall-output",
            Self::PmuReport | Self::PmuJson => "--pmu-output",
            Self::Folded => "--folded-output",
            Self::FlameGraph => "--flamegraph-output",
        }
    }

    /// What an automatic name says about the content: the word before the extension, and the extension.
    fn auto_parts(self) -> (&'static str, &'static str) {
        match self {
            Self::CpuProfile => ("on-cpu", "pb.gz"),
            Self::OffCpuProfile => ("off-cpu", "pb.gz"),
            Self::WallProfile => ("wall", "pb.gz"),
            Self::PmuReport => ("pmu", "txt"),
            Self::PmuJson => ("pmu", "json"),
            Self::Folded => ("on-cpu", "folded"),
            Self::FlameGraph => ("on-cpu", "svg"),
        }
    }
}

/// A file to write to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileTarget {
    /// This path. A regular file is replaced as a whole; a device or FIFO is written directly.
    Path(PathBuf),
    /// A new file with the first free number of this name.
    Auto(AutoName),
    /// Standard output.
    Stdout,
}

impl FileTarget {
    /// The target that the command line means by this word: `-` is standard output, anything else a path.
    #[must_use]
    pub fn from_word(word: &std::ffi::OsStr) -> Self {
        if word == "-" { Self::Stdout } else { Self::Path(word.into()) }
    }

    /// How messages name it.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Path(path) => path.display().to_string(),
            Self::Auto(name) => name.path(1).display().to_string(),
            Self::Stdout => "standard output".to_owned(),
        }
    }
}

impl From<&str> for FileTarget {
    fn from(path: &str) -> Self {
        Self::Path(path.into())
    }
}

impl From<String> for FileTarget {
    fn from(path: String) -> Self {
        Self::Path(path.into())
    }
}

impl From<&Path> for FileTarget {
    fn from(path: &Path) -> Self {
        Self::Path(path.into())
    }
}

impl From<PathBuf> for FileTarget {
    fn from(path: PathBuf) -> Self {
        Self::Path(path)
    }
}

impl From<AutoName> for FileTarget {
    fn from(name: AutoName) -> Self {
        Self::Auto(name)
    }
}

/// A file or a caller's sink.
pub(crate) enum OutputTarget {
    /// A file.
    File(FileTarget),
    /// Whatever the caller gave.
    Sink(Box<dyn Sink>),
}

impl OutputTarget {
    /// How messages name it.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::File(file) => file.describe(),
            Self::Sink(_) => "the given sink".to_owned(),
        }
    }
}
