//! A target that was opened: whatever happens to its path later, the output goes where the path led at the start.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory::Directory;
use super::names::{AutoName, Numbered, before_extension};
use super::place::{Place, directory_of, follow};
use super::sink::Sink;
use super::target::{FileTarget, OutputTarget};
use crate::Error;

/// Where a file goes.
#[derive(Clone, Debug)]
pub(super) enum Destination {
    /// A name in a directory; `given` is the path in other words, as it was given.
    Named { directory: Directory, name: OsString, given: Given },
    /// The first free number of an automatic name.
    Numbered { directory: Directory, name: AutoName },
    /// The first free number of the name of an interval.
    Interval { directory: Directory, name: Numbered },
    /// A device or FIFO.
    Direct { handle: Arc<OwnedFd>, path: PathBuf },
    /// Standard output.
    Stdout,
}

/// A path before a link of its last name is followed. The files of intervals and modes lie beside it.
#[derive(Clone, Debug)]
pub(super) struct Given {
    directory: Directory,
    name: OsString,
}

/// A file or a caller's sink.
pub(crate) enum OpenTarget {
    /// A file.
    File(OpenFile),
    /// A sink of the caller.
    Sink(Box<dyn Sink>),
}

/// A file to write to.
#[derive(Clone, Debug)]
pub(crate) struct OpenFile(pub(super) Destination);

/// Opens what leads to a target: its directory, device or FIFO. Creates nothing.
///
/// # Errors
/// [`Error::Output`]: with the path and the system error.
pub(crate) fn open_target(target: OutputTarget) -> Result<OpenTarget, Error> {
    Ok(match target {
        OutputTarget::Sink(sink) => OpenTarget::Sink(sink),
        OutputTarget::File(file) => OpenTarget::File(
            OpenFile::open(&file).map_err(|source| Error::Output { which: file.describe(), source })?,
        ),
    })
}

impl OpenFile {
    /// Opens what leads to a file: its directory, device or FIFO. Creates nothing.
    ///
    /// # Errors
    /// The error of the system call, or of a link that is not followed.
    pub(crate) fn open(target: &FileTarget) -> io::Result<Self> {
        Ok(Self(match target {
            FileTarget::Stdout => Destination::Stdout,
            FileTarget::Auto(name) => {
                Destination::Numbered { directory: directory_of(name.directory())?, name: name.clone() }
            }
            FileTarget::Path(path) => {
                let followed = follow(path)?;
                match followed.place {
                    Place::Direct { handle, .. } => Destination::Direct { handle, path: path.clone() },
                    Place::Regular { directory, name, .. } => {
                        let last = path.file_name().unwrap_or_default().to_owned();
                        let given = Given { directory: followed.beside, name: last };
                        Destination::Named { directory, name, given }
                    }
                }
            }
        }))
    }

    /// The file of one interval: `NAME-TIME.EXT`, with a number where a file has that name. Devices, FIFOs and
    /// standard output stay the same and receive all intervals one after the other.
    pub(crate) fn of_interval(&self, time: &str) -> Self {
        Self(match &self.0 {
            Destination::Named { given: Given { directory, name }, .. } => Destination::Interval {
                directory: directory.clone(),
                name: Numbered::of(name, &format!("-{time}")),
            },
            Destination::Numbered { directory, name } => {
                Destination::Numbered { directory: directory.clone(), name: name.of_interval(time) }
            }
            direct => direct.clone(),
        })
    }

    /// The same file for one of several profiles, which a word stands for: `NAME.WORD.EXT`; in an automatic name it takes the place of the
    /// mode. None for what takes one profile only: a device, a FIFO, standard output.
    pub(super) fn of_mode(&self, mode: &str) -> Option<Self> {
        match &self.0 {
            Destination::Named { given, .. } => Some(Self(given.with(&format!(".{mode}")))),
            Destination::Numbered { directory, name } => {
                let (directory, name) = (directory.clone(), name.clone().of_word(mode));
                Some(Self(Destination::Numbered { directory, name }))
            }
            _ => None,
        }
    }

    /// Its path in messages.
    pub(crate) fn path(&self) -> PathBuf {
        match &self.0 {
            Destination::Named { directory, name, .. } => directory.path_of(name),
            Destination::Numbered { directory, name } => directory.path_of(&name.file_name(1)),
            Destination::Interval { directory, name } => directory.path_of(&name.with(1)),
            Destination::Direct { path, .. } => path.clone(),
            Destination::Stdout => PathBuf::from("standard output"),
        }
    }
}

impl OpenTarget {
    /// Its name in messages.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::File(file) => file.path().display().to_string(),
            Self::Sink(_) => "the given sink".to_owned(),
        }
    }
}

impl Given {
    /// The file beside it with more text before the extension. A link with that name is replaced, not followed.
    fn with(&self, more: &str) -> Destination {
        let name = before_extension(Path::new(&self.name), more).into_os_string();
        let given = Self { directory: self.directory.clone(), name: name.clone() };
        Destination::Named { directory: self.directory.clone(), name, given }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(path: impl AsRef<Path>) -> OpenFile {
        OpenFile::open(&path.as_ref().into()).unwrap()
    }

    #[test]
    fn each_mode_and_interval_has_a_file_beside_the_given_path() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("far")).unwrap();
        std::os::unix::fs::symlink("far/real.svg", at("flame.svg")).unwrap();
        let flame = opened(at("flame.svg"));
        assert_eq!(flame.path(), at("far/real.svg"));
        assert_eq!(flame.of_mode("off-cpu").unwrap().path(), at("flame.off-cpu.svg"));
        assert_eq!(flame.of_mode("wall").unwrap().of_interval("T").path(), at("flame.wall-T.svg"));
    }

    #[test]
    fn a_device_takes_all_intervals_and_one_mode() {
        let null = opened("/dev/null");
        assert_eq!(null.of_interval("T").path(), Path::new("/dev/null"));
        assert!(null.of_mode("wall").is_none());
        assert!(OpenFile(Destination::Stdout).of_mode("wall").is_none());
    }
}
