//! What a monitor follows: the system, processes, threads, cgroups; and the places where events are opened for them.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use perf_abi::numbers::open_flags;

use super::cgroup::{self, Cgroup};
use super::error::MonitorError;

/// What is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// Everything.
    System,
    /// All threads of a process, and what they start later.
    Pid(u32),
    /// A thread, and what it starts later.
    Tid(u32),
    /// A cgroup and those below it.
    Cgroup(String),
}

/// A place where an event is opened on each CPU.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Index of its source.
    pub source: usize,
    pub kind: PlaceKind,
}

#[derive(Clone, Debug)]
pub(crate) enum PlaceKind {
    System,
    Thread(u32),
    Cgroup(Arc<Cgroup>),
}

impl Place {
    /// The argument `pid` of the system call.
    pub fn pid(&self) -> i32 {
        match &self.kind {
            PlaceKind::System => -1,
            PlaceKind::Thread(tid) => i32::try_from(*tid).unwrap_or(i32::MAX),
            PlaceKind::Cgroup(cgroup) => {
                let fd: &OwnedFd = &cgroup.fd;
                fd.as_raw_fd()
            }
        }
    }

    /// The flags of the system call.
    pub fn flags(&self) -> u32 {
        if matches!(self.kind, PlaceKind::Cgroup(_)) { open_flags::PID_CGROUP as u32 } else { 0 }
    }

    /// The thread, if it is one.
    pub fn thread(&self) -> Option<u32> {
        if let PlaceKind::Thread(tid) = self.kind { Some(tid) } else { None }
    }

    /// What messages call it.
    pub fn describe(&self) -> String {
        match &self.kind {
            PlaceKind::System => "the system".to_owned(),
            PlaceKind::Thread(tid) => format!("thread {tid}"),
            PlaceKind::Cgroup(cgroup) => format!("cgroup {}", cgroup.path.display()),
        }
    }
}

/// The sources, opened, without repetitions; the whole system if there is none.
#[derive(Debug)]
pub(crate) struct Sources {
    pub all: Vec<Source>,
    cgroups: Vec<(usize, Arc<Cgroup>)>,
}

impl Sources {
    pub fn open(wanted: &[Source], cgroup_root: Option<&Path>) -> Result<Self, MonitorError> {
        let mut all: Vec<Source> = Vec::new();
        for source in wanted {
            if !all.contains(source) {
                all.push(source.clone());
            }
        }
        if all.is_empty() {
            all.push(Source::System);
        }
        let mut cgroups = Vec::new();
        for (index, source) in all.iter().enumerate() {
            if let Source::Cgroup(name) = source {
                cgroups.push((index, Arc::new(cgroup::open(name, cgroup_root)?)));
            }
        }
        Ok(Self { all, cgroups })
    }

    /// The places that are there now.
    pub fn places(&self) -> Result<Vec<Place>, MonitorError> {
        let mut places = Vec::new();
        for (index, source) in self.all.iter().enumerate() {
            let place = |kind| Place { source: index, kind };
            match source {
                Source::System => places.push(place(PlaceKind::System)),
                Source::Tid(tid) if Path::new("/proc").join(tid.to_string()).is_dir() => {
                    places.push(place(PlaceKind::Thread(*tid)));
                }
                Source::Tid(tid) => return Err(MonitorError::NoSuchProcess { what: "thread", number: *tid }),
                Source::Pid(pid) => {
                    places.extend(threads(*pid)?.into_iter().map(|tid| place(PlaceKind::Thread(tid))))
                }
                Source::Cgroup(_) => {
                    let found = self.cgroups.iter().find(|(at, _)| *at == index);
                    places.extend(found.map(|(_, cgroup)| place(PlaceKind::Cgroup(Arc::clone(cgroup)))));
                }
            }
        }
        Ok(places)
    }

    /// Threads of the followed processes that are not in `known`.
    pub fn new_threads(&self, known: &[Place]) -> Vec<Place> {
        let seen: BTreeSet<(usize, Option<u32>)> =
            known.iter().map(|place| (place.source, place.thread())).collect();
        let now = self.all.iter().enumerate().filter_map(|(index, source)| match source {
            Source::Pid(pid) => Some((index, threads(*pid).unwrap_or_default())),
            _ => None,
        });
        let all = now.flat_map(|(source, tids)| {
            tids.into_iter().map(move |tid| Place { source, kind: PlaceKind::Thread(tid) })
        });
        all.filter(|place| !seen.contains(&(place.source, place.thread()))).collect()
    }

    /// Whether some are processes or threads, whose events their children inherit.
    pub fn follow_threads(&self) -> bool {
        self.all.iter().any(|source| matches!(source, Source::Pid(_) | Source::Tid(_)))
    }

    /// Whether all sources are cgroups that were removed.
    pub fn cgroups_are_gone(&self) -> bool {
        self.cgroups.len() == self.all.len() && self.cgroups.iter().all(|(_, cgroup)| cgroup.is_gone())
    }

    /// The cgroup of a place in an error of the kernel.
    pub fn refusal(place: &Place, source: &std::io::Error) -> Option<MonitorError> {
        if let PlaceKind::Cgroup(cgroup) = &place.kind { cgroup.refusal(source) } else { None }
    }
}

/// The threads of a process.
pub(crate) fn threads(pid: u32) -> Result<Vec<u32>, MonitorError> {
    let missing = || MonitorError::NoSuchProcess { what: "process", number: pid };
    // /proc/TID of any thread has the threads of its process; only the process itself is one.
    let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(|_| missing())?;
    let tgid =
        status.lines().find_map(|line| line.strip_prefix("Tgid:")).and_then(|text| text.trim().parse().ok());
    let entries = fs::read_dir(format!("/proc/{pid}/task")).map_err(|_| missing())?;
    if tgid != Some(pid) {
        return Err(missing());
    }
    let tid = |entry: std::io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    let mut tids: Vec<u32> = entries.filter_map(tid).collect();
    tids.sort_unstable();
    if tids.is_empty() { Err(missing()) } else { Ok(tids) }
}
