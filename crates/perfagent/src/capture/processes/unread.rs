//! What of the targets could not be read, and which capabilities would help.

use process::OpenCounts;
use sys::caps::{self, CapabilitySet};

use crate::{Warning, WarningKind, privilege};

/// These open the memory maps and the files of other users' processes, also deleted ones and those of containers.
const OPENERS: CapabilitySet =
    CapabilitySet::SYS_PTRACE.union(CapabilitySet::CHECKPOINT_RESTORE).union(CapabilitySet::DAC_READ_SEARCH);

/// What could not be read.
pub(in super::super) struct Unread {
    /// Processes whose mappings this user may not read.
    pub(super) processes_refused: u64,
    /// Files, by reason.
    pub(super) files: OpenCounts,
}

impl Unread {
    /// What is to be said about it.
    pub(in super::super) fn warnings(&self) -> Vec<Warning> {
        let effective = caps::effective().unwrap_or(CapabilitySet::empty());
        self.refused(OPENERS - effective).into_iter().chain(self.failed()).collect()
    }

    /// What this user may not read, without the capabilities in `missing`.
    fn refused(&self, missing: CapabilitySet) -> Option<Warning> {
        let subjects: Vec<_> = [
            counted(self.processes_refused, "process", "processes"),
            counted(self.files.permission, "file with code", "files with code"),
        ]
        .into_iter()
        .flatten()
        .collect();
        if subjects.is_empty() {
            return None;
        }
        let missing: Vec<_> = caps::names(missing).collect();
        let (why, hint) = if missing.is_empty() {
            let hint = "a security module, or the file system (as FUSE without allow_other), refuses";
            (String::new(), hint.to_owned())
        } else {
            let line = privilege::setcap_line();
            (format!(" without {}", missing.join(", ")), format!("run as root, or once: {line}"))
        };
        let message = format!(
            "{} of the targets: permission denied{why}; frames there have no names, and stacks through them may be cut",
            subjects.join(" and ")
        );
        Some(Warning::new(WarningKind::Unreadable, message, hint))
    }

    /// What could not be read for other reasons.
    fn failed(&self) -> Option<Warning> {
        let OpenCounts { gone, replaced, too_many_open_files, io, .. } = self.files;
        let all = gone + replaced + too_many_open_files + io;
        let reasons = [
            (gone, "no longer there"),
            (replaced, "replaced by others"),
            (too_many_open_files, "for want of descriptors"),
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
}

/// None of nothing.
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

    fn unread(processes_refused: u64, files: OpenCounts) -> Unread {
        Unread { processes_refused, files }
    }

    #[test]
    fn names_the_capabilities_that_are_missing() {
        let files = OpenCounts { permission: 1, opened: 7, ..OpenCounts::default() };
        let warning = unread(2, files).refused(OPENERS - CapabilitySet::SYS_PTRACE).unwrap();
        assert!(
            warning.message.starts_with(
                "2 processes and 1 file with code of the targets: permission denied without \
                 cap_dac_read_search, cap_checkpoint_restore;"
            ),
            "{}",
            warning.message
        );
        assert!(warning.hint.unwrap().contains("setcap cap_bpf,"));
        let warning = unread(0, files).refused(CapabilitySet::empty()).unwrap();
        assert!(!warning.message.contains("cap_") && !warning.hint.unwrap().contains("setcap"));
    }

    #[test]
    fn nothing_is_said_where_everything_was_read() {
        let opened = OpenCounts { opened: 7, not_pinned: 3, not_regular: 1, ..OpenCounts::default() };
        assert_eq!(unread(0, opened).warnings(), []);
    }

    #[test]
    fn other_reasons_are_told_apart() {
        let files = OpenCounts { gone: 2, too_many_open_files: 1, ..OpenCounts::default() };
        let warning = unread(0, files).failed().unwrap();
        assert!(
            warning.message.starts_with(
                "3 files with code of the targets could not be opened (2 no longer there, 1 for want of descriptors);"
            ),
            "{}",
            warning.message
        );
        assert!(warning.hint.unwrap().contains("ulimit -n"));
    }
}
