//! The required capabilities, the capabilities of this thread, and the capabilities of a program file.

use std::io;
use std::path::Path;

use sys::caps::{self, CapabilitySet};

/// The capabilities that every mode needs, to load programs and to open events.
const REQUIRED: CapabilitySet = CapabilitySet::BPF.union(CapabilitySet::PERFMON);

/// Whether this thread may look into every process.
pub(crate) fn may_trace() -> bool {
    caps::effective().is_ok_and(|set| set.contains(CapabilitySet::SYS_PTRACE))
}

/// The required capabilities that are missing. `cap_sys_admin` replaces those that every mode needs. `traces`: threads of other processes are
/// to be stopped.
pub(crate) fn missing(effective: CapabilitySet, traces: bool) -> CapabilitySet {
    let of_capture = if effective.contains(CapabilitySet::SYS_ADMIN) {
        CapabilitySet::empty()
    } else {
        REQUIRED - effective
    };
    let of_tracing = if traces { CapabilitySet::SYS_PTRACE - effective } else { CapabilitySet::empty() };
    of_capture | of_tracing
}

/// The permitted set that a program file grants; none if it grants nothing.
///
/// # Errors
/// The error of the system call.
pub(crate) fn of_file(path: &Path) -> io::Result<Option<CapabilitySet>> {
    let mut value = [0u8; 64];
    match rustix::fs::getxattr(path, "security.capability", &mut value) {
        Ok(length) => Ok(parse_file_capabilities(value.get(..length).unwrap_or_default())),
        Err(rustix::io::Errno::NODATA | rustix::io::Errno::NOTSUP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// `struct vfs_cap_data`, revisions 2 and 3: magic, then (permitted, inheritable) for the low and the high word.
fn parse_file_capabilities(value: &[u8]) -> Option<CapabilitySet> {
    let word = |index: usize| {
        let bytes = value.get(index * 4..index * 4 + 4)?;
        Some(u64::from(u32::from_le_bytes(bytes.try_into().ok()?)))
    };
    let permitted = word(1)? | word(3)? << 32;
    Some(CapabilitySet::from_bits_retain(permitted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cap_sys_admin_replaces_both() {
        let missing_to_capture = |effective| missing(effective, false);
        assert!(missing_to_capture(CapabilitySet::SYS_ADMIN).is_empty());
        assert_eq!(missing_to_capture(CapabilitySet::BPF), CapabilitySet::PERFMON);
        assert_eq!(missing_to_capture(CapabilitySet::empty()), REQUIRED);
        assert!(missing_to_capture(REQUIRED | CapabilitySet::SYSLOG).is_empty());
    }

    #[test]
    fn nothing_replaces_the_capability_to_trace() {
        assert_eq!(missing(CapabilitySet::SYS_ADMIN, true), CapabilitySet::SYS_PTRACE);
        assert_eq!(missing(CapabilitySet::PERFMON, true), CapabilitySet::BPF | CapabilitySet::SYS_PTRACE);
        assert!(missing(REQUIRED | CapabilitySet::SYS_PTRACE, true).is_empty());
    }

    #[test]
    fn reads_the_file_capabilities_of_setcap() {
        let mut value = vec![1, 0, 0, 2];
        value.extend([0u8; 8]);
        value.extend((1u32 << (38 - 32) | 1 << (39 - 32)).to_le_bytes());
        value.extend([0u8; 4]);
        assert_eq!(parse_file_capabilities(&value), Some(REQUIRED));
        assert_eq!(parse_file_capabilities(&value[..10]), None);
        assert_eq!(of_file(Path::new("/etc/passwd")).unwrap(), None);
    }
}
