//! Processes that have another file at the path of a probe, as in a container: their own file is not probed.
//!
//! Their file systems may not answer, so a thread of its own looks, and is given up after a while.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use probes::shown_path;
use sys::thread::within;

use super::probe_spec::Probe;

/// Time for a look at the files of all processes.
const PATIENCE: Duration = Duration::from_secs(2);

/// The reason why a probe may never be hit in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OtherFile {
    /// A process has another file at the path of the probe.
    Found {
        /// The process.
        pid: u32,
        /// Its file, under `/proc/PID/root`.
        path: PathBuf,
    },
    /// The file system of a process does not answer.
    NoAnswer,
}

impl OtherFile {
    /// Looks for the first of these processes that has another file at the path of the probe. `None`: none of them has, as far as their
    /// files may be looked at.
    #[must_use]
    pub fn of(probe: &Probe, pids: &[u32]) -> Option<Self> {
        let path = std::path::absolute(probe.path()?).ok().filter(|path| !path.starts_with("/proc"))?;
        let pids = pids.to_vec();
        let look = move || {
            let found = |pid: &u32| Some(Self::Found { pid: *pid, path: other_file(&path, *pid)? });
            pids.iter().find_map(found)
        };
        within("files", PATIENCE, look).ok()?.unwrap_or(Some(Self::NoAnswer))
    }

    /// The warning about the probe with this name.
    #[must_use]
    pub fn message(&self, probe: &str) -> String {
        match self {
            Self::Found { pid, .. } => {
                format!("{probe}: process {pid} has another file at this path, which is not probed")
            }
            Self::NoAnswer => format!(
                "{probe}: gave up looking whether the processes have another file at this path: their file system does not respond"
            ),
        }
    }

    /// The remedy.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::Found { path, .. } => format!("name its file: {}", shown_path(path)),
            Self::NoAnswer => "if no hit comes, name the file of a process: /proc/PID/root/PATH".to_owned(),
        }
    }
}

/// A process's own file at a path. `None` if the process has the same file there, or no file.
fn other_file(path: &Path, pid: u32) -> Option<PathBuf> {
    let theirs = Path::new("/proc").join(pid.to_string()).join("root").join(path.strip_prefix("/").ok()?);
    let (ours, other) = (std::fs::metadata(path).ok()?, std::fs::metadata(&theirs).ok()?);
    (other.is_file() && (ours.dev(), ours.ino()) != (other.dev(), other.ino())).then_some(theirs)
}
