//! Targets of outputs.

use std::path::{Path, PathBuf};

use super::kind::OutputKind;
use super::names::AutoName;
use super::place::{Place, place_of};
use super::sink::Sink;

/// A file to write to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileTarget {
    /// This path. A regular file is replaced as a whole; a device or FIFO is written directly.
    Path(PathBuf),
    /// A new file with this name and its first free number.
    Auto(AutoName),
    /// Standard output.
    Stdout,
}

impl FileTarget {
    /// The target for a word of the command line: `-` is standard output, any other word is a path.
    #[must_use]
    pub fn from_word(word: &std::ffi::OsStr) -> Self {
        if word == "-" { Self::Stdout } else { Self::Path(word.into()) }
    }

    /// Whether a file can be written there bit by bit, and changed where it was written already.
    pub(crate) fn grows_in_place(&self) -> bool {
        match self {
            Self::Path(path) => !is_direct(path),
            Self::Auto(_) | Self::Stdout => false,
        }
    }

    /// The output that an option means by a file of this name: what is known of locks is text, or a profile if the name ends with
    /// `.pb.gz`.
    pub(crate) fn kind_of(&self, kind: OutputKind) -> OutputKind {
        let is_profile = |path: &Path| formats::registry::extension_of(path) == Some("pb.gz");
        match (kind, self) {
            (OutputKind::LockReport, Self::Path(path)) if is_profile(path) => OutputKind::LockProfile,
            _ => kind,
        }
    }

    /// Its name in messages.
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
    /// A sink of the caller.
    Sink(Box<dyn Sink>),
}

fn is_direct(path: &Path) -> bool {
    matches!(place_of(path), Ok(Place::Direct { .. }))
}
