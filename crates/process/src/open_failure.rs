//! Why a mapped file could not be opened.

use std::fmt;

use rustix::io::Errno;

/// Why a mapped file could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum OpenFailure {
    /// Any other error.
    Io,
    /// Neither the process nor a path leads to it any more.
    Gone,
    /// The file found is not a regular file.
    NotRegular,
    /// The file found is another one.
    Replaced,
    /// The kernel refused. `CAP_SYS_PTRACE` (other users' processes), `CAP_CHECKPOINT_RESTORE` and `CAP_DAC_READ_SEARCH`
    /// (deleted files) would help.
    Permission,
    /// No descriptor was free.
    TooManyOpenFiles,
    /// Its file system did not answer in time.
    NoAnswer,
}

impl fmt::Display for OpenFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Io => "cannot be read",
            Self::Gone => "no longer exists",
            Self::NotRegular => "not a regular file",
            Self::Replaced => "another file took its place",
            Self::Permission => "permission denied",
            Self::TooManyOpenFiles => "too many open files",
            Self::NoAnswer => "its file system does not answer",
        })
    }
}

impl From<Errno> for OpenFailure {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::SRCH | Errno::NOTDIR | Errno::NXIO | Errno::STALE => Self::Gone,
            Errno::ACCESS | Errno::PERM => Self::Permission,
            Errno::MFILE | Errno::NFILE => Self::TooManyOpenFiles,
            _ => Self::Io,
        }
    }
}
