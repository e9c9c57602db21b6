//! Targets that could not be read, and which capabilities would help.

use std::collections::HashSet;

use process::OpenCounts;
use sys::caps::{self, CapabilitySet};

use crate::{Warning, WarningKind, privilege};

/// These open the memory maps and the files of other users' processes, also deleted ones and those of containers.
const OPENERS: CapabilitySet =
    CapabilitySet::SYS_PTRACE.union(CapabilitySet::CHECKPOINT_RESTORE).union(CapabilitySet::DAC_READ_SEARCH);

/// Processes whose mappings could not be read, by reason.
#[derive(Default)]
pub(super) struct Unread {
    /// Permission denied.
    refused: u64,
    /// The process had ended.
    ended: u64,
    /// Any other error.
    failed: u64,
    /// The running ones of these processes, so that each counts once.
    pids: HashSet<u32>,
    /// Name and number of the first processes that were refused, and of those with another error.
    refused_names: Vec<String>,
    failed_names: Vec<String>,
    /// The ended ones, and before those that had ended when [`Self::prune`] was last called.
    ended_pids: [HashSet<u32>; 2],
}

/// More processes than these are only counted.
const FEW: usize = 5;

impl Unread {
    /// Counts a process once. Whether this was the first time.
    pub(super) fn count(&mut self, pid: u32, error: &process::Error) -> bool {
        let is_known = self.pids.contains(&pid) || self.ended_pids.iter().any(|ended| ended.contains(&pid));
        let first = !is_known;
        if first && matches!(error, process::Error::Gone { .. }) {
            self.ended_pids[0].insert(pid);
        } else if first {
            self.pids.insert(pid);
        }
        let reason = match error {
            process::Error::Permission { .. } => &mut self.refused,
            process::Error::Gone { .. } => &mut self.ended,
            _ => &mut self.failed,
        };
        *reason += u64::from(first);
        let named = match error {
            process::Error::Permission { .. } => Some(&mut self.refused_names),
            process::Error::Gone { .. } => None,
            _ => Some(&mut self.failed_names),
        };
        if let Some(named) = named.filter(|named| first && named.len() <= FEW) {
            let name = process::task::comm(pid).ok().filter(|name| !name.is_empty());
            named.push(name.map_or_else(|| format!("pid {pid}"), |name| format!("{name} {pid}")));
        }
        first
    }

    /// The process was read, or its number belongs to another process now. Whether it had been counted.
    pub(super) fn forget(&mut self, pid: u32) -> bool {
        let [recent, older] = &mut self.ended_pids;
        [&mut self.pids, recent, older].into_iter().any(|pids| pids.remove(&pid))
    }

    /// The process has ended. It may still be asked for by what is on its way.
    pub(super) fn end(&mut self, pid: u32) {
        if self.pids.remove(&pid) {
            self.ended_pids[0].insert(pid);
        }
    }

    /// Forgets the processes that had ended before this was last called.
    pub(super) fn prune(&mut self) {
        let [recent, older] = &mut self.ended_pids;
        *older = std::mem::take(recent);
    }

    /// Processes that are remembered.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.pids.len() + self.ended_pids.iter().map(HashSet::len).sum::<usize>()
    }

    /// Warnings about these processes, and about files.
    pub(super) fn warnings(&self, files: OpenCounts) -> Vec<Warning> {
        let effective = caps::effective().unwrap_or(CapabilitySet::empty());
        let refused = self.refused(files.permission, OPENERS - effective);
        let memory = memory_not_read(files.memory_no_answer);
        refused.into_iter().chain(self.lost()).chain(not_opened(files)).chain(memory).collect()
    }

    /// Processes that could not be read, whatever the permissions.
    fn lost(&self) -> Option<Warning> {
        let reasons = [(self.ended, "ended before"), (self.failed, "not readable")];
        let reasons = reasons.iter().filter(|(count, _)| *count > 0);
        let reasons: Vec<_> = reasons.map(|(count, reason)| format!("{count} {reason}")).collect();
        let message = format!(
            "mappings of {} of the targets could not be read ({}){}; frames there have no names, and stacks may be cut",
            counted(self.ended + self.failed, "process", "processes")?,
            reasons.join(", "),
            few(&self.failed_names)
        );
        Some(Warning::bare(WarningKind::Unreadable, message))
    }

    /// Processes and files that this user may not read without the capabilities in `missing`.
    fn refused(&self, files: u64, missing: CapabilitySet) -> Option<Warning> {
        let subjects: Vec<_> = [
            counted(self.refused, "process", "processes"),
            counted(files, "file with code", "files with code"),
        ]
        .into_iter()
        .flatten()
        .collect();
        if subjects.is_empty() {
            return None;
        }
        let missing: Vec<_> = caps::names(missing).collect();
        let (why, hint) = if missing.is_empty() {
            let hint = "a security module refuses, or a FUSE file system: mount that with -o allow_other";
            (String::new(), hint.to_owned())
        } else {
            let line = privilege::setcap_line();
            (format!(" without {}", missing.join(", ")), format!("run as root, or once: {line}"))
        };
        let message = format!(
            "{} of the targets{}: permission denied{why}; frames there have no names, and stacks through them may be cut",
            subjects.join(" and "),
            few(&self.refused_names)
        );
        Some(Warning::new(WarningKind::Unreadable, message, hint))
    }
}

/// Files that could not be opened for other reasons.
fn not_opened(files: OpenCounts) -> Option<Warning> {
    let OpenCounts { gone, replaced, too_many_open_files, no_answer, io, .. } = files;
    let all = gone + replaced + too_many_open_files + no_answer + io;
    let reasons = [
        (gone, "no longer there"),
        (replaced, "replaced by others"),
        (too_many_open_files, "for want of descriptors"),
        (no_answer, "whose file system does not answer"),
        (io, "not readable"),
    ];
    let reasons: Vec<_> = reasons
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, reason)| format!("{count} {reason}"))
        .collect();
    let message = format!(
        "{} of the targets could not be opened ({}); frames there have no names, and stacks through them may be cut",
        counted(all, "file with code", "files with code")?,
        reasons.join(", ")
    );
    Some(match too_many_open_files {
        0 => Warning::bare(WarningKind::Unreadable, message),
        _ => Warning::new(WarningKind::Unreadable, message, "raise the limit of open files (ulimit -n)"),
    })
}

/// These processes in parentheses, if they are few.
fn few(names: &[String]) -> String {
    if (1..=FEW).contains(&names.len()) { format!(" ({})", names.join(", ")) } else { String::new() }
}

/// Memory that could not be read in time.
fn memory_not_read(reads: u64) -> Option<Warning> {
    let reads = counted(reads, "read of memory", "reads of memory")?;
    let message = format!(
        "{reads} of the targets given up, as the files behind it do not answer; some threads that slept at the start have no stack"
    );
    Some(Warning::bare(WarningKind::Unreadable, message))
}

/// None if there are none.
fn counted(count: u64, one: &str, many: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        _ => Some(format!("{count} {many}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unread(refused: u64) -> Unread {
        Unread { refused, ..Unread::default() }
    }

    #[test]
    fn names_the_capabilities_that_are_missing() {
        let warning = unread(2).refused(1, OPENERS - CapabilitySet::SYS_PTRACE).unwrap();
        assert!(
            warning.message.starts_with(
                "2 processes and 1 file with code of the targets: permission denied without \
                 cap_dac_read_search, cap_checkpoint_restore;"
            ),
            "{}",
            warning.message
        );
        assert!(warning.hint.unwrap().contains("setcap cap_bpf,"));
        let warning = unread(0).refused(1, CapabilitySet::empty()).unwrap();
        assert!(!warning.message.contains("cap_") && !warning.hint.unwrap().contains("setcap"));
    }

    #[test]
    fn few_processes_are_named() {
        let refused = process::Error::Permission { pid: 1, path: String::new() };
        let own = std::process::id();
        let mut unread = Unread::default();
        unread.count(own, &refused);
        unread.count(u32::MAX, &refused);
        let message = unread.refused(0, CapabilitySet::empty()).unwrap().message;
        let name = process::task::comm(own).unwrap();
        assert!(
            message.contains(&format!("2 processes of the targets ({name} {own}, pid {})", u32::MAX)),
            "{message}"
        );
        (10..20).for_each(|pid| _ = unread.count(pid, &refused));
        assert!(
            unread
                .refused(0, CapabilitySet::empty())
                .unwrap()
                .message
                .starts_with("12 processes of the targets: ")
        );
    }

    #[test]
    fn nothing_is_said_where_everything_was_read() {
        let opened = OpenCounts { opened: 7, not_pinned: 3, not_regular: 1, ..OpenCounts::default() };
        assert_eq!(unread(0).warnings(opened), []);
    }

    #[test]
    fn a_process_counts_once_and_one_that_ended_was_not_refused() {
        let mut unread = Unread::default();
        let refused = process::Error::Permission { pid: 1, path: "/proc/1/maps".to_owned() };
        assert!(unread.count(1, &refused) && !unread.count(1, &refused));
        for pid in [7, 8, 7] {
            unread.count(pid, &process::Error::Gone { pid });
        }
        assert!(unread.forget(8) && !unread.forget(8));
        assert!(unread.count(8, &process::Error::Gone { pid: 8 }), "another one with its number");
        assert_eq!((unread.refused, unread.ended, unread.failed), (1, 3, 0));
        let message = unread.lost().unwrap().message;
        assert!(
            message.starts_with("mappings of 3 processes of the targets could not be read (3 ended before);")
        );
        let message = unread.refused(0, CapabilitySet::empty()).unwrap().message;
        assert!(
            message.starts_with("1 process of the targets (") && message.contains(" 1): permission denied;"),
            "{message}"
        );
    }

    #[test]
    fn ended_processes_are_not_remembered_for_long() {
        let mut unread = Unread::default();
        let refused = process::Error::Permission { pid: 1, path: "/proc/1/maps".to_owned() };
        unread.count(1, &refused);
        (2..1000).for_each(|pid| assert!(unread.count(pid, &process::Error::Gone { pid })));
        unread.prune();
        assert!(!unread.count(500, &process::Error::Gone { pid: 500 }), "stacks of it may be on their way");
        unread.prune();
        assert_eq!(unread.remembered(), 1, "the running one");
        unread.end(1);
        assert!(!unread.count(1, &refused));
        unread.prune();
        unread.prune();
        assert_eq!((unread.remembered(), unread.ended, unread.refused), (0, 998, 1));
    }

    #[test]
    fn other_reasons_are_told_apart() {
        let files = OpenCounts { gone: 2, too_many_open_files: 1, ..OpenCounts::default() };
        let warning = not_opened(files).unwrap();
        assert!(
            warning.message.starts_with(
                "3 files with code of the targets could not be opened (2 no longer there, 1 for want of descriptors);"
            ),
            "{}",
            warning.message
        );
        assert!(warning.hint.unwrap().contains("ulimit -n"));
        assert_eq!(memory_not_read(0), None);
        let message = memory_not_read(2).unwrap().message;
        assert!(message.starts_with("2 reads of memory of the targets given up, "), "{message}");
        let files = OpenCounts { no_answer: 1, ..OpenCounts::default() };
        let message = not_opened(files).unwrap().message;
        let expected =
            "1 file with code of the targets could not be opened (1 whose file system does not answer);";
        assert!(message.starts_with(expected), "{message}");
    }
}
