//! Errors of perf events, with hints.

use std::io;

use rustix::io::Errno;

/// An error of perf events.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An event could not be opened.
    #[error("open perf event {event} on CPU {cpu}: {source}{}", hint(.source))]
    Open {
        /// Name of the event.
        event: String,
        /// The CPU.
        cpu: u32,
        /// The cause.
        source: io::Error,
    },
    /// All CPUs are offline, or none was given.
    #[error("open perf event {event}: none of {cpus} CPUs is online")]
    NoCpu {
        /// Name of the event.
        event: String,
        /// The number of CPUs tried.
        cpus: usize,
    },
    /// The ring of an event could not be mapped at any size.
    #[error("map the ring of perf event {event} on CPU {cpu}: {source}{}", ring_hint(.source))]
    Ring {
        /// Name of the event.
        event: String,
        /// The CPU.
        cpu: u32,
        /// The cause.
        source: io::Error,
    },
    /// The BPF program could not be attached.
    #[error("attach the BPF program to the perf event on CPU {cpu}: {source}{}", attach_hint(.source))]
    Attach {
        /// The CPU.
        cpu: u32,
        /// The cause.
        source: io::Error,
    },
    /// An event could not be switched on or off.
    #[error("{action} the perf event on CPU {cpu}: {source}")]
    Switch {
        /// "enable" or "disable".
        action: &'static str,
        /// The CPU.
        cpu: u32,
        /// The cause.
        source: io::Error,
    },
    /// A counter could not be switched on or off.
    #[error("{action} a counter: {source}")]
    SwitchCounters {
        /// "enable" or "disable".
        action: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// The list of online CPUs could not be read.
    #[error("read the list of online CPUs from {path}: {source}")]
    Cpus {
        /// The file.
        path: &'static str,
        /// The cause.
        source: io::Error,
    },
}

impl Error {
    /// The errno, if the kernel gave one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Open { source, .. }
            | Self::Ring { source, .. }
            | Self::Attach { source, .. }
            | Self::Switch { source, .. }
            | Self::SwitchCounters { source, .. }
            | Self::Cpus { source, .. } => source.raw_os_error(),
            Self::NoCpu { .. } => None,
        }
    }

    /// Whether a missing capability is the likely reason.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        matches!(self.errno().map(Errno::from_raw_os_error), Some(Errno::ACCESS | Errno::PERM))
    }
}

fn hint(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::ACCESS | Errno::PERM) => {
            "; needs CAP_PERFMON (CAP_SYS_ADMIN before Linux 5.8), and a seccomp profile that allows perf_event_open"
        }
        Some(Errno::MFILE | Errno::NFILE) => "; raise the limit of open files (ulimit -n)",
        Some(Errno::INVAL) => "; the rate may exceed kernel.perf_event_max_sample_rate",
        Some(Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV) => "; this machine has no such event",
        Some(Errno::NOSYS) => "; this kernel was built without CONFIG_PERF_EVENTS",
        Some(Errno::BUSY) => "; another user holds the counter exclusively",
        _ => "",
    }
}

fn ring_hint(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::PERM) => {
            "; needs CAP_IPC_LOCK, a higher kernel.perf_event_mlock_kb or a higher ulimit -l"
        }
        Some(Errno::NOMEM) => "; no memory is left",
        _ => "",
    }
}

fn attach_hint(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::EXIST) => "; the event has a program already",
        Some(Errno::ACCESS | Errno::PERM) => "; needs CAP_PERFMON and CAP_BPF",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_event_cpu_cause_and_remedy() {
        let source = io::Error::from(Errno::ACCESS);
        let error = Error::Open { event: "software/cpu-clock".to_owned(), cpu: 3, source };
        assert!(error.is_permission());
        let text = error.to_string();
        for part in ["software/cpu-clock", "CPU 3", "Permission denied", "CAP_PERFMON"] {
            assert!(text.contains(part), "{text}");
        }
        let source = io::Error::from(Errno::MFILE);
        let error = Error::Open { event: "x".to_owned(), cpu: 0, source };
        assert!(error.to_string().contains("ulimit -n") && !error.is_permission());
    }
}
