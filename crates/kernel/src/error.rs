//! The errors of this crate.

use std::io;

use crate::log;

/// Why an operation on the programs or maps failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused to load the programs because a capability is missing.
    #[error("the kernel refused to load BPF programs: {source}; CAP_BPF and CAP_PERFMON are needed")]
    Privilege {
        /// The error of the system call.
        source: io::Error,
    },
    /// The kernel refused a program or a map.
    #[error("cannot load the BPF programs: {source:#}")]
    Load {
        /// libbpf's error.
        source: libbpf_rs::Error,
        /// The error number in it.
        errno: Option<i32>,
        /// The end of libbpf's and the verifier's log.
        log: String,
    },
    /// The object lacks a program or map of this name: the build is inconsistent.
    #[error("the BPF object has no {kind} named {name}")]
    Missing {
        /// `program` or `map`.
        kind: &'static str,
        /// Its name.
        name: &'static str,
    },
    /// A program could not be attached.
    #[error("cannot attach the BPF program {program}: {source:#}")]
    Attach {
        /// The program.
        program: String,
        /// libbpf's error.
        source: libbpf_rs::Error,
    },
    /// A map operation failed.
    #[error("cannot {action} the BPF map {map}: {source:#}")]
    Map {
        /// What was attempted.
        action: &'static str,
        /// The map.
        map: &'static str,
        /// libbpf's error.
        source: libbpf_rs::Error,
    },
    /// A map could not be mapped into memory.
    #[error("cannot map the BPF map {map} into memory: {source}")]
    Mmap {
        /// The map.
        map: &'static str,
        /// The error of the system call.
        source: io::Error,
    },
    /// A value is where the programs cannot read it.
    #[error("the programs cannot read a value there: too many loads, or bits outside of its bytes")]
    ValuePlan,
    /// The table pool is at its configured limit.
    #[error(
        "no room for {words} more words of unwind tables and mappings: the limit of {limit_mib} MiB is reached"
    )]
    TablePoolFull {
        /// Requested 32-bit words.
        words: u32,
        /// The limit.
        limit_mib: u32,
    },
}

impl Error {
    /// The system's error number, where a system call is the cause.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Privilege { source } | Self::Mmap { source, .. } => source.raw_os_error(),
            Self::Load { errno, .. } => *errno,
            Self::Attach { source, .. } | Self::Map { source, .. } => errno_of(source),
            _ => None,
        }
    }

    /// Whether this process or the machine has run out of file descriptors.
    #[must_use]
    pub fn is_for_want_of_descriptors(&self) -> bool {
        self.errno().is_some_and(|errno| [libc::EMFILE, libc::ENFILE].contains(&errno))
    }
}

/// The error number at the end of a libbpf error, which has it only as text: `… (os error 24)`.
pub(crate) fn errno_of(error: &libbpf_rs::Error) -> Option<i32> {
    let text = format!("{error:#}");
    text.strip_suffix(')')?.rsplit_once("(os error ")?.1.parse().ok()
}

/// The error of a load that failed. A refusal before the verifier looked at a program is a missing capability.
pub(crate) fn load_error(source: libbpf_rs::Error) -> Error {
    if source.kind() == libbpf_rs::ErrorKind::PermissionDenied && !log::recent().contains("processed") {
        return Error::Privilege { source: io::Error::from_raw_os_error(1) };
    }
    Error::Load { errno: errno_of(&source), source, log: log::recent() }
}

#[cfg(test)]
mod tests {
    use libbpf_rs::ErrorExt as _;

    use super::*;

    #[test]
    fn the_error_number_is_found_under_added_context() {
        let source = libbpf_rs::Error::from_raw_os_error(libc::EMFILE).context("failed to open object");
        assert_eq!(errno_of(&source), Some(libc::EMFILE));
        let load = Error::Load { errno: errno_of(&source), source, log: String::new() };
        assert!(
            load.is_for_want_of_descriptors() && load.to_string().contains("Too many open files"),
            "{load}"
        );
        let source = libbpf_rs::Error::from_raw_os_error(libc::EINVAL);
        assert!(!Error::Map { action: "keep", map: "x", source }.is_for_want_of_descriptors());
    }
}
