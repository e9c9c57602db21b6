//! The check of capabilities: effective, permitted, and those of the program file.

use sys::caps::{self, CapabilitySet};

use super::check::{Check, Status};
use crate::{capabilities, privilege};

/// The optional capabilities, and what is missing without each.
const USED: [(CapabilitySet, &str); 5] = [
    (CapabilitySet::SYS_PTRACE, "other users' processes"),
    (CapabilitySet::SYSLOG, "kernel symbols"),
    (CapabilitySet::DAC_READ_SEARCH, "deleted files, tracefs"),
    (CapabilitySet::CHECKPOINT_RESTORE, "deleted files"),
    (CapabilitySet::IPC_LOCK, "large rings"),
];

/// Compares the capabilities of this process with those that the agent needs.
pub(super) fn capabilities() -> Check {
    let sets = rustix::thread::capabilities(None);
    let file = std::env::current_exe().and_then(|path| capabilities::of_file(&path)).ok().flatten();
    match sets {
        Ok(sets) => judge(sets.effective, sets.permitted, file),
        Err(error) => {
            let value = format!("cannot be read: {}", std::io::Error::from(error));
            Check::new("capabilities", "every mode", Status::Fail, value).fixed_by(privilege::setcap_line())
        }
    }
}

fn judge(effective: CapabilitySet, permitted: CapabilitySet, file: Option<CapabilitySet>) -> Check {
    let file = file.map_or_else(|| "none".to_owned(), list);
    let sets = format!("effective {}; permitted {}; file {file}", list(effective), list(permitted));
    let check = |status, value| Check::new("capabilities", "every mode", status, value);
    let missing = capabilities::missing(effective, false);
    if !missing.is_empty() {
        return check(Status::Fail, format!("missing {}; {sets}", list(missing)))
            .fixed_by(privilege::setcap_line());
    }
    let lost: Vec<_> = USED.iter().filter(|(one, _)| !effective.contains(*one)).collect();
    if lost.is_empty() {
        return check(Status::Ok, sets);
    }
    let lost: Vec<_> = lost.iter().map(|(one, what)| format!("{} ({what})", list(*one))).collect();
    check(Status::Warn, format!("missing {}; {sets}", lost.join(", "))).fixed_by(privilege::setcap_line())
}

fn list(set: CapabilitySet) -> String {
    let names: Vec<_> = caps::names(set).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts() {
        let all = USED.iter().fold(CapabilitySet::BPF | CapabilitySet::PERFMON, |set, (one, _)| set | *one);
        assert_eq!(judge(all, all, Some(all)).status, Status::Ok);
        let check = judge(all - CapabilitySet::SYSLOG, all, None);
        assert_eq!(check.status, Status::Warn);
        assert!(check.value.contains("cap_syslog (kernel symbols)"), "{}", check.value);
        let check = judge(all - CapabilitySet::BPF, all, None);
        assert_eq!(check.status, Status::Fail);
        assert!(check.value.starts_with("missing cap_bpf;"), "{}", check.value);
        assert!(check.fix.is_some_and(|fix| fix.contains("setcap")));
        assert_ne!(judge(CapabilitySet::SYS_ADMIN, all, None).status, Status::Fail);
    }
}
