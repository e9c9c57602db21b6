//! The errors of the library: stable kinds, messages that name the attempt, its object and the cause, and a hint what to
//! do.
//!
//! Guaranteed: [`Error::kind`] is stable across minor releases, the texts are not.

use std::fmt;
use std::io;

use rustix::io::Errno;

use crate::capabilities;

/// Any cause, kept for [`std::error::Error::source`].
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a capture could not be configured, started, run or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration is invalid. Nothing was attached. The command line exits with status 2.
    #[error("{reason}")]
    #[non_exhaustive]
    InvalidConfig {
        /// The option at fault, spelled as on the command line (`--sample-rate`).
        option: String,
        /// What is wrong with it.
        reason: String,
        /// What to do about it.
        hint: String,
        /// The error of the system call that refused a command, if it is one.
        errno: Option<i32>,
    },
    /// A capability is missing.
    #[error("missing privilege: {}", .missing.join(", "))]
    Privilege {
        /// The missing capabilities, as `setcap` spells them.
        missing: Vec<String>,
        /// The command that grants the capabilities.
        setcap_line: String,
    },
    /// The kernel refused a call although this process has the capabilities for it.
    #[error("{attempt}: refused, although this process has the capabilities: {cause}")]
    #[non_exhaustive]
    Refused {
        /// What was attempted.
        attempt: String,
        /// The likely cause.
        cause: String,
        /// What to do.
        hint: String,
    },
    /// The kernel or the machine lacks a feature.
    #[error("{feature} is not available here (needs {since})")]
    Unsupported {
        /// The missing feature.
        feature: String,
        /// The kernel version, option or machine that has it.
        since: String,
    },
    /// The kernel refused a program.
    #[error("the kernel refused the program {program}: {source}{log}")]
    Load {
        /// Name of the program or object.
        program: String,
        /// The log of the verifier.
        log: LoadLog,
        /// The error of the system call.
        source: io::Error,
    },
    /// An event could not be opened or connected.
    #[error("attach {event}{}: {source}", CpuSuffix(*.cpu))]
    Attach {
        /// The event, as `software/cpu-clock`.
        event: String,
        /// The CPU, if the event belongs to one.
        cpu: Option<u32>,
        /// The error of the system call.
        source: io::Error,
    },
    /// A target is gone, or may not be inspected.
    #[error("target pid {pid}: {reason}")]
    Target {
        /// The PID as given.
        pid: u32,
        /// Why it cannot be profiled.
        reason: TargetReason,
    },
    /// No process has the name that a target was given by.
    #[error("no process is named `{name}`")]
    #[non_exhaustive]
    NoSuchName {
        /// The name as given.
        name: String,
    },
    /// The trampoline of CPython could not be switched on in a target.
    #[error("python: pid {pid}: {token}: {cause}")]
    #[non_exhaustive]
    Inject {
        /// The process.
        pid: u32,
        /// The kind of the refusal: `not_python`, `python_too_old`, `no_perf_trampoline`, `no_libpython_symbols`, `timeout`,
        /// `ptrace_denied`, `exited` or `other`. These words are stable.
        token: &'static str,
        /// The cause in words.
        cause: String,
        /// What to do.
        hint: String,
    },
    /// A file or sink could not be written.
    #[error("write {which}: {source}")]
    Output {
        /// The path, or the name of the sink.
        which: String,
        /// The error of the system call or of the sink.
        source: io::Error,
    },
    /// A system call that every capture needs failed.
    #[error("{attempt}: {source}")]
    System {
        /// What was attempted, and on what.
        attempt: String,
        /// The error of the system call.
        source: io::Error,
    },
    /// The metrics endpoint cannot listen on its address.
    #[error("listen for metrics on {address}: {source}")]
    #[non_exhaustive]
    Listen {
        /// The address.
        address: String,
        /// The error of the system call or of the host name lookup.
        source: io::Error,
        /// What to do.
        hint: String,
    },
    /// The command cannot be run.
    #[error("run {program}: {source}")]
    #[non_exhaustive]
    Command {
        /// Its name as given.
        program: String,
        /// The error of the system call.
        source: io::Error,
        /// What to do, if the file shows the reason.
        hint: Option<String>,
    },
    /// `start` on an agent that was started before. An agent makes one capture: build another agent.
    #[error("the agent was already started; build another agent for another capture")]
    AlreadyStarted,
    /// `stop` or `metrics` on an agent that was not started.
    #[error("the agent was not started")]
    NotStarted,
    /// `stop` or `cut` on an agent that has stopped.
    #[error("the agent is not running")]
    NotRunning,
    /// Any call on a closed agent.
    #[error("the agent is closed")]
    Closed,
    /// The token cancelled the start, and the start was undone.
    #[error("cancelled")]
    Cancelled,
    /// A recording could not be read: it is damaged, truncated, or not a recording.
    #[error("read the recording: {reason}")]
    #[non_exhaustive]
    Recording {
        /// What is wrong, and where in the file.
        reason: String,
    },
    /// A written profile could not be read: it is damaged, truncated, too large, or neither pprof nor folded stacks.
    #[error("read the profile: {reason}")]
    #[non_exhaustive]
    Profile {
        /// What is wrong, and of a file that is cut off, where.
        reason: String,
    },
    /// Profiles do not have the same values, or there are none.
    #[error("merge the profiles: {reason}")]
    #[non_exhaustive]
    Merge {
        /// Which one, and what it has.
        reason: String,
    },
    /// Profiles cannot be compared.
    #[error("compare the profiles: {reason}")]
    #[non_exhaustive]
    Compare {
        /// Which one, and what it lacks.
        reason: String,
    },
    /// A call for metrics, but the agent takes none.
    #[error("the agent takes no metrics: it was built without pmu()")]
    PmuNotEnabled,
}

/// The stable kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// See [`Error::InvalidConfig`].
    InvalidConfig,
    /// See [`Error::Privilege`] and [`Error::Refused`].
    Privilege,
    /// See [`Error::Unsupported`].
    Unsupported,
    /// See [`Error::Load`].
    Load,
    /// See [`Error::Attach`].
    Attach,
    /// See [`Error::Target`] and [`Error::NoSuchName`].
    Target,
    /// See [`Error::Inject`].
    Inject,
    /// See [`Error::Output`].
    Output,
    /// See [`Error::System`].
    System,
    /// See [`Error::Listen`].
    Listen,
    /// See [`Error::Command`].
    Command,
    /// See [`Error::AlreadyStarted`].
    AlreadyStarted,
    /// See [`Error::NotStarted`].
    NotStarted,
    /// See [`Error::NotRunning`].
    NotRunning,
    /// See [`Error::Closed`].
    Closed,
    /// See [`Error::Cancelled`].
    Cancelled,
    /// See [`Error::Recording`].
    Recording,
    /// See [`Error::Profile`].
    Profile,
    /// See [`Error::PmuNotEnabled`].
    PmuNotEnabled,
}

/// Why a target cannot be profiled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TargetReason {
    /// The process does not exist, or ended before the start.
    Gone,
    /// The process exists, and `/proc` does not show it: it is mounted with `hidepid`, or shows another PID namespace.
    Hidden,
    /// `/proc` is not mounted.
    NoProc,
    /// The agent is not allowed to read its mappings.
    NotPermitted,
    /// Several processes have this PID in their own PID namespaces; one text for each.
    Ambiguous(Vec<String>),
}

impl fmt::Display for TargetReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("no such process"),
            Self::Hidden => f.write_str("it exists, but /proc does not show it"),
            Self::NoProc => f.write_str("/proc is not mounted"),
            Self::NotPermitted => f.write_str("not permitted to inspect it"),
            Self::Ambiguous(candidates) => {
                write!(f, "several processes have this number inside their container: ")?;
                f.write_str(&candidates.join("; "))
            }
        }
    }
}

/// The verifier's log of a refused program. `Display` shows only its end, which has the reason.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LoadLog(String);

/// Lines of a log that `Display` shows.
const LOG_LINES_SHOWN: usize = 6;

impl LoadLog {
    /// From a complete log.
    #[must_use]
    pub fn new(complete: impl Into<String>) -> Self {
        Self(complete.into())
    }

    /// The complete log.
    #[must_use]
    pub fn complete(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LoadLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<&str> = self.0.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        let shown = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
        if shown.is_empty() { Ok(()) } else { write!(f, " ({})", shown.join(" | ")) }
    }
}

impl fmt::Debug for LoadLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoadLog({} bytes)", self.0.len())
    }
}

/// The hint for a lack of descriptors.
const MORE_DESCRIPTORS: &str =
    "raise the limit of open files: `ulimit -n 4096`, or LimitNOFILE= of the service";

/// Whether the error is EMFILE or ENFILE.
fn is_for_want_of_descriptors(source: &io::Error) -> bool {
    matches!(Errno::from_io_error(source), Some(Errno::MFILE | Errno::NFILE))
}

/// The hint for a process that the agent is not allowed to inspect.
fn not_permitted(is_root: bool, may_trace: bool) -> String {
    let hint = match (is_root, may_trace) {
        (_, true) => {
            "a security module (Yama, AppArmor, SELinux) or the user namespace of the process forbids it, although the \
             agent has cap_sys_ptrace"
        }
        (true, false) => {
            "this root lacks cap_sys_ptrace: grant it, in a container for example by --cap-add SYS_PTRACE"
        }
        (false, false) => "run as root or as the owner of the process, or grant cap_sys_ptrace",
    };
    hint.to_owned()
}

/// Shows ` on CPU n`, or nothing.
struct CpuSuffix(Option<u32>);

impl fmt::Display for CpuSuffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |cpu| write!(f, " on CPU {cpu}"))
    }
}

impl Error {
    /// An [`Error::InvalidConfig`]; `option` as on the command line.
    #[must_use]
    pub(crate) fn invalid(
        option: impl Into<String>,
        reason: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self::InvalidConfig { option: option.into(), reason: reason.into(), hint: hint.into(), errno: None }
    }

    /// An [`Error::InvalidConfig`] for a command that cannot be run.
    #[must_use]
    pub(crate) fn invalid_command(program: &str, source: &io::Error) -> Self {
        Self::InvalidConfig {
            option: "-- CMD".to_owned(),
            reason: format!("command `{program}`: {source}"),
            hint: "give a program in PATH, or the path of an executable file".to_owned(),
            errno: source.raw_os_error(),
        }
    }

    /// The stable kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InvalidConfig { .. } => ErrorKind::InvalidConfig,
            Self::Privilege { .. } | Self::Refused { .. } => ErrorKind::Privilege,
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::Load { .. } => ErrorKind::Load,
            Self::Attach { .. } => ErrorKind::Attach,
            Self::Target { .. } | Self::NoSuchName { .. } => ErrorKind::Target,
            Self::Inject { .. } => ErrorKind::Inject,
            Self::Output { .. } => ErrorKind::Output,
            Self::System { .. } => ErrorKind::System,
            Self::Listen { .. } => ErrorKind::Listen,
            Self::Command { .. } => ErrorKind::Command,
            Self::AlreadyStarted => ErrorKind::AlreadyStarted,
            Self::NotStarted => ErrorKind::NotStarted,
            Self::NotRunning => ErrorKind::NotRunning,
            Self::Closed => ErrorKind::Closed,
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Recording { .. } => ErrorKind::Recording,
            Self::Profile { .. } | Self::Merge { .. } | Self::Compare { .. } => ErrorKind::Profile,
            Self::PmuNotEnabled => ErrorKind::PmuNotEnabled,
        }
    }

    /// What the user can do about it, if anything.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::InvalidConfig { hint, .. }
            | Self::Listen { hint, .. }
            | Self::Inject { hint, .. }
            | Self::Refused { hint, .. } => Some(hint.clone()),
            Self::System { source, .. } | Self::Command { source, .. }
                if is_for_want_of_descriptors(source) =>
            {
                Some(MORE_DESCRIPTORS.to_owned())
            }
            Self::Command { hint, .. } => hint.clone(),
            Self::Privilege { setcap_line, .. } => Some(format!("run as root, or once: {setcap_line}")),
            Self::Attach { source, .. } if is_for_want_of_descriptors(source) => {
                Some(MORE_DESCRIPTORS.to_owned())
            }
            Self::Unsupported { .. } | Self::Load { .. } | Self::Attach { .. } => {
                Some("`perf-agent doctor` shows what works here and how to fix the rest".to_owned())
            }
            Self::NoSuchName { .. } => {
                Some("the name must be exact, as in /proc/PID/comm; see `ps -e -o pid,comm`".to_owned())
            }
            Self::Target { reason: TargetReason::Gone, .. } => {
                Some("the PID must be one of the agent's PID namespace; see `ps -e`".to_owned())
            }
            Self::Target { reason: TargetReason::Hidden, .. } => Some(
                "/proc may be mounted with hidepid: run as root or grant cap_sys_ptrace, or `mount -o remount,hidepid=0 /proc`"
                    .to_owned(),
            ),
            Self::Target { reason: TargetReason::NoProc, .. } => {
                Some("mount -t proc proc /proc".to_owned())
            }
            Self::Target { reason: TargetReason::NotPermitted, .. } => {
                Some(not_permitted(rustix::process::geteuid().is_root(), capabilities::may_trace()))
            }
            Self::Target { reason: TargetReason::Ambiguous(_), .. } => {
                Some("give the PID that the process has in the agent's PID namespace".to_owned())
            }
            Self::Output { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("free some space, or write to another file system".to_owned())
            }
            _ => None,
        }
    }

    /// The error number of the system call, if one is the cause.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Load { source, .. }
            | Self::Attach { source, .. }
            | Self::Output { source, .. }
            | Self::System { source, .. }
            | Self::Listen { source, .. }
            | Self::Command { source, .. } => source.raw_os_error(),
            Self::InvalidConfig { errno, .. } => *errno,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_attempt_object_and_cause() {
        let attach = Error::Attach {
            event: "software/cpu-clock".into(),
            cpu: Some(3),
            source: io::Error::from_raw_os_error(1),
        };
        assert_eq!(
            attach.to_string(),
            "attach software/cpu-clock on CPU 3: Operation not permitted (os error 1)"
        );
        assert_eq!(attach.errno(), Some(1));
        assert_eq!(attach.kind(), ErrorKind::Attach);
        let gone = Error::Target { pid: 7, reason: TargetReason::Gone };
        assert_eq!(gone.to_string(), "target pid 7: no such process");
        assert!(gone.hint().is_some());
        assert!(std::error::Error::source(&attach).is_some());
    }

    #[test]
    fn hints_do_not_ask_for_a_capability_that_is_there() {
        assert!(not_permitted(false, false).contains("run as root"));
        assert!(!not_permitted(true, false).contains("run as root"));
        assert!(!not_permitted(true, true).contains("grant"));
        for errno in [Errno::MFILE, Errno::NFILE] {
            let error = Error::System { attempt: "x".to_owned(), source: errno.into() };
            assert!(error.hint().unwrap().contains("ulimit -n"));
        }
    }

    #[test]
    fn a_load_log_is_shortened_to_its_end() {
        let complete: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let log = LoadLog::new(complete.clone());
        assert_eq!(log.complete(), complete);
        let shown = log.to_string();
        assert!(shown.contains("line 99") && !shown.contains("line 93 "), "{shown}");
        assert_eq!(LoadLog::default().to_string(), "");
    }
}
