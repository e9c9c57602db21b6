//! Errors of the monitor: what was attempted, on what, why it failed, what to do.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use sys::caps::{self, CapabilitySet};
use sys::confinement::confinement;

use super::item::EventId;

/// An error of the monitor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// No such process or thread.
    #[error("follow {what} {number}: there is no such {what}")]
    NoSuchProcess {
        /// "process" or "thread".
        what: &'static str,
        /// Its number.
        number: u32,
    },
    /// The attribute contradicts itself.
    #[error(transparent)]
    InvalidAttr(#[from] perf_abi::InvalidAttr),
    /// The kernel lacks a field of the attribute.
    #[error(transparent)]
    UnsupportedAttr(#[from] perf_abi::UnsupportedAttr),
    /// No mount with cgroups that perf events can follow.
    #[error("find the root of cgroups: no such directory; searched {}; give the directory, or mount cgroup2 there", searched.join(", "))]
    CgroupRoot {
        /// Where it was searched.
        searched: Vec<String>,
    },
    /// No such cgroup.
    #[error("follow cgroup {}: {source}; `ls` its parent to see what is there", path.display())]
    CgroupNotFound {
        /// Its directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The hierarchy has no controller for perf events.
    #[error("follow cgroup {}: its hierarchy has no controller perf_event; name a cgroup of cgroup2, or of the hierarchy with perf_event", path.display())]
    CgroupNoPerf {
        /// Its directory.
        path: PathBuf,
    },
    /// A directory that is no cgroup.
    #[error("follow cgroup {}: the directory is no cgroup", path.display())]
    NotACgroup {
        /// The directory.
        path: PathBuf,
    },
    /// tracefs is not there.
    #[error("find tracefs: searched {}; mount it with `mount -t tracefs none /sys/kernel/tracing`, or grant cap_sys_admin: then perf-agent mounts it for itself", searched.join(", "))]
    Tracefs {
        /// Where it was searched.
        searched: Vec<String>,
    },
    /// No such tracepoint.
    #[error("find tracepoint {name}: there is no {}{}", path.display(), near_names(near))]
    UnknownTracepoint {
        /// The name.
        name: String,
        /// The directory that it would have.
        path: PathBuf,
        /// Similar names.
        near: Vec<String>,
    },
    /// A format file cannot be understood.
    #[error("read the format of tracepoint {name}: {source}")]
    Format {
        /// The name.
        name: String,
        /// The cause.
        source: tracepoints::FormatError,
    },
    /// A file cannot be read.
    #[error("read {}: {source}{}", path.display(), permission_hint(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The kernel refuses the filter.
    #[error("filter {event} by {text:?}: {reason}")]
    Filter {
        /// The event.
        event: String,
        /// The filter.
        text: String,
        /// Why.
        reason: String,
    },
    /// No memory for the ring.
    #[error(
        "map a ring of {pages} pages on CPU {cpu}: {source}; raise kernel.perf_event_mlock_kb, ask for fewer pages, or grant cap_ipc_lock"
    )]
    RingMemory {
        /// Its pages.
        pages: usize,
        /// The CPU.
        cpu: u32,
        /// The cause.
        source: io::Error,
    },
    /// The machine or the kernel lacks the event.
    #[error(
        "open {event}: this machine has no such event; virtual machines often lack those of the processor"
    )]
    Unsupported {
        /// The event.
        event: String,
        /// The cause.
        source: io::Error,
    },
    /// A group without an event.
    #[error("count events as a group: no event is given")]
    EmptyGroup,
    /// The event source counts and takes no samples.
    #[error("open {event}: it can be counted, but gives no records; `perf-agent events stat` counts it")]
    OnlyCounted {
        /// The event.
        event: String,
    },
    /// Records of a group that has none.
    #[error("deliver the records of a group: none of its events is sampled; give one of them a period")]
    NotSampled,
    /// The kernel does not count the event together with those before it.
    #[error(
        "count {event} in one group with {leader}: the kernel refuses, though it counts it alone; \
         the processor may have too few counters for all: count fewer events at a time"
    )]
    DoesNotFit {
        /// The event.
        event: String,
        /// The first event of the group.
        leader: String,
    },
    /// The kernel lacks probes of this kind.
    #[error(
        "open {event}: this kernel has no {what}; it needs {option}, or use a tracepoint: `perf-agent events list` shows them"
    )]
    NoProbes {
        /// The event.
        event: String,
        /// What it lacks.
        what: &'static str,
        /// The kernel's options for it.
        option: &'static str,
    },
    /// A probe cannot be made or removed.
    #[error("{attempt} {event}: {reason}")]
    Probe {
        /// The event.
        event: String,
        /// "define" or "remove".
        attempt: &'static str,
        /// Why; in the kernel's words where it has any.
        reason: String,
    },
    /// There is no such place for a probe.
    #[error(transparent)]
    Target(#[from] probes::ProbeError),
    /// The event is registered already.
    #[error(
        "open {event}: it is registered already, and the kernel gives records of two software events of one kind the number of one of them; \
         unregister the first one, or use a monitor of another process"
    )]
    Repeated {
        /// The event.
        event: String,
    },
    /// The event cannot be opened.
    #[error("open {event} for {target}{}: {source}{}", on_cpu(*cpu), open_hint(source, target))]
    Open {
        /// The event.
        event: String,
        /// What it follows.
        target: String,
        /// The CPU; none for a thread wherever it runs.
        cpu: Option<u32>,
        /// The cause.
        source: io::Error,
    },
    /// No CPU is online.
    #[error("open events: no CPU is online")]
    NoCpu,
    /// The list of CPUs cannot be read.
    #[error(transparent)]
    Cpus(#[from] crate::Error),
    /// No event has this number.
    #[error("event {0:?} is not registered")]
    NotRegistered(EventId),
    /// It runs already.
    #[error("the monitor runs already")]
    AlreadyRunning,
    /// It was closed.
    #[error("the monitor is closed")]
    Closed,
    /// Waiting for the end of the run from within its callback.
    #[error("the callback waits for its own end; the monitor stops when it returns")]
    WouldDeadlock,
    /// Another system call failed.
    #[error("{attempt}: {source}")]
    System {
        /// What was attempted.
        attempt: &'static str,
        /// The cause.
        source: io::Error,
    },
}

impl MonitorError {
    /// Whether the thread has ended for which an event was to be opened.
    pub(crate) fn is_end_of_thread(&self) -> bool {
        matches!(self, Self::Open { source, .. } if Errno::from_io_error(source) == Some(Errno::SRCH))
    }

    /// Whether a missing privilege is the likely reason.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        match self {
            Self::Open { source, .. } | Self::Read { source, .. } => is_permission(source),
            Self::RingMemory { source, .. } => is_permission(source),
            Self::Tracefs { .. } => !rustix::process::geteuid().is_root(),
            _ => false,
        }
    }
}

fn is_permission(source: &io::Error) -> bool {
    matches!(Errno::from_io_error(source), Some(Errno::ACCESS | Errno::PERM))
}

fn on_cpu(cpu: Option<u32>) -> String {
    cpu.map_or(String::new(), |cpu| format!(" on CPU {cpu}"))
}

fn near_names(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; similar are {}", near.join(", ")) }
}

fn permission_hint(source: &io::Error) -> &'static str {
    if is_permission(source) { "; run as root, or remount tracefs with a group that may read it" } else { "" }
}

fn open_hint(source: &io::Error, target: &str) -> Cow<'static, str> {
    if is_permission(source)
        && let Some(cause) = refused_in_spite_of_capabilities()
    {
        return cause.into();
    }
    let hint = match Errno::from_io_error(source) {
        Some(Errno::ACCESS | Errno::PERM) if target == "the system" => {
            "; needs cap_perfmon or kernel.perf_event_paranoid at -1; a process of your own (--pid) and software events of user code work without"
        }
        Some(Errno::ACCESS | Errno::PERM) => {
            "; needs cap_perfmon, or a process of your own and kernel.perf_event_paranoid at most 1"
        }
        Some(Errno::MFILE | Errno::NFILE) => {
            "; it takes a descriptor for each event and each thread or CPU: raise the limit of open files (ulimit -n), or name fewer events"
        }
        Some(Errno::BUSY) => "; another user holds the counter exclusively",
        _ => "",
    };
    hint.into()
}

/// Why an event is refused to a process that has the capability for it; `None` if it lacks that.
pub(crate) fn refused_in_spite_of_capabilities() -> Option<String> {
    let has = caps::effective().ok()?.intersects(CapabilitySet::PERFMON | CapabilitySet::SYS_ADMIN);
    has.then(|| {
        let (cause, remedy) = confinement().cause();
        format!("; this process may open events, but {cause}: {remedy}")
    })
}
