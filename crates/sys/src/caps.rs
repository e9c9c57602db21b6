//! Capabilities of this thread. New threads inherit them: raise them before the first thread is started.

use std::io;

pub use rustix::thread::CapabilitySet;

/// The effective capabilities.
///
/// # Errors
/// The errno of `capget(2)`.
pub fn effective() -> io::Result<CapabilitySet> {
    Ok(rustix::thread::capabilities(None)?.effective)
}

/// Makes every permitted capability effective and returns the effective set. File capabilities without the effective
/// bit arrive as permitted only.
///
/// # Errors
/// The errno of `capget(2)` or `capset(2)`.
pub fn raise_permitted() -> io::Result<CapabilitySet> {
    let mut sets = rustix::thread::capabilities(None)?;
    if sets.effective != sets.permitted {
        sets.effective = sets.permitted;
        rustix::thread::set_capabilities(None, sets)?;
    }
    Ok(sets.effective)
}

/// The names, as in `capabilities(7)`, of the capabilities in `set` that perf-agent can use.
pub fn names(set: CapabilitySet) -> impl Iterator<Item = &'static str> {
    [
        (CapabilitySet::BPF, "cap_bpf"),
        (CapabilitySet::PERFMON, "cap_perfmon"),
        (CapabilitySet::SYS_PTRACE, "cap_sys_ptrace"),
        (CapabilitySet::SYSLOG, "cap_syslog"),
        (CapabilitySet::DAC_READ_SEARCH, "cap_dac_read_search"),
        (CapabilitySet::CHECKPOINT_RESTORE, "cap_checkpoint_restore"),
        (CapabilitySet::IPC_LOCK, "cap_ipc_lock"),
        (CapabilitySet::SYS_ADMIN, "cap_sys_admin"),
    ]
    .into_iter()
    .filter(move |&(one, _)| set.contains(one))
    .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permitted_capabilities_become_effective() {
        // In its own thread: capabilities are per thread, and the other tests keep theirs.
        std::thread::spawn(|| {
            let permitted = rustix::thread::capabilities(None).unwrap().permitted;
            let mut sets = rustix::thread::capabilities(None).unwrap();
            sets.effective = CapabilitySet::empty();
            rustix::thread::set_capabilities(None, sets).unwrap();
            assert_eq!(effective().unwrap(), CapabilitySet::empty());
            assert_eq!(raise_permitted().unwrap(), permitted);
            assert_eq!(effective().unwrap(), permitted);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn names_follow_the_kernel_numbers() {
        assert_eq!(CapabilitySet::PERFMON.bits(), 1 << 38);
        assert_eq!(CapabilitySet::CHECKPOINT_RESTORE.bits(), 1 << 40);
        let set = CapabilitySet::BPF | CapabilitySet::SYSLOG;
        assert_eq!(names(set).collect::<Vec<_>>(), ["cap_bpf", "cap_syslog"]);
    }
}
