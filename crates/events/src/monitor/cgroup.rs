//! cgroups by name: their directories, opened.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::error::MonitorError;
use super::tracefs::mounts;

/// An opened cgroup.
#[derive(Debug)]
pub(crate) struct Cgroup {
    /// Its directory.
    pub path: PathBuf,
    /// The directory, opened.
    pub fd: OwnedFd,
}

/// Processes of a cgroup that are listed.
const MAX_PROCESSES: usize = 1024;
/// Bytes of their list that are read.
const MAX_LIST: u64 = 1 << 20;

/// The processes that are in a cgroup itself now; none if it cannot be read.
#[must_use]
pub fn processes_in(cgroup: &str) -> Vec<u32> {
    let read = || -> Option<String> {
        let mut list = String::new();
        let path = open(cgroup, None).ok()?.path.join("cgroup.procs");
        File::open(path).ok()?.take(MAX_LIST).read_to_string(&mut list).ok()?;
        Some(list)
    };
    let list = read().unwrap_or_default();
    list.lines().filter_map(|line| line.parse().ok()).take(MAX_PROCESSES).collect()
}

/// Opens the cgroup with this name: an absolute path, or relative to `root`, else to the mount with the controller perf_event, else to
/// that of cgroup2.
pub(crate) fn open(name: &str, root: Option<&Path>) -> Result<Cgroup, MonitorError> {
    let trimmed = name.trim_end_matches('/');
    let path = if name.starts_with('/') {
        PathBuf::from(if trimmed.is_empty() { "/" } else { trimmed })
    } else {
        find_root(root)?.join(trimmed)
    };
    let opened = rustix::fs::open(&path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    match opened {
        Ok(fd) => Ok(Cgroup { path, fd }),
        Err(source) => Err(MonitorError::CgroupNotFound { path, source: source.into() }),
    }
}

fn find_root(root: Option<&Path>) -> Result<PathBuf, MonitorError> {
    if let Some(root) = root {
        return match root.is_dir() {
            true => Ok(root.to_owned()),
            false => Err(MonitorError::CgroupRoot { searched: vec![root.display().to_string()] }),
        };
    }
    let found = mounts("cgroup", Some("perf_event")).into_iter().chain(mounts("cgroup2", None)).next();
    found.ok_or_else(|| MonitorError::CgroupRoot {
        searched: vec!["/proc/self/mountinfo for a cgroup mount with perf_event, and for cgroup2".to_owned()],
    })
}

impl Cgroup {
    /// Whether its directory was removed.
    pub fn is_gone(&self) -> bool {
        !self.path.is_dir()
    }

    /// What the kernel means by refusing an event for it.
    pub fn refusal(&self, source: &io::Error) -> Option<MonitorError> {
        let path = self.path.clone();
        match rustix::io::Errno::from_io_error(source) {
            Some(rustix::io::Errno::BADF) => Some(MonitorError::NotACgroup { path }),
            Some(rustix::io::Errno::NOENT) if self.is_gone() => {
                Some(MonitorError::CgroupNotFound { path, source: io::Error::from(io::ErrorKind::NotFound) })
            }
            // An event that the machine lacks has the same errno; a file of the controller tells them apart.
            Some(rustix::io::Errno::NOENT) if File::open(self.path.join("cgroup.controllers")).is_err() => {
                Some(MonitorError::CgroupNoPerf { path })
            }
            _ => None,
        }
    }
}
