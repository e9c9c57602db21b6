//! What is counted and told of tables: each kind of warning in bounds, because a target can make as many broken files as it likes.

use unwind::Table;

use super::mapping_list::MAX_ENTRIES;
use crate::{Warning, WarningKind};

/// Warnings that are kept. All of them are counted.
const MAX_WARNINGS: usize = 64;

/// Counts and warnings.
#[derive(Default)]
pub(super) struct TableWarnings {
    warnings: Vec<Warning>,
    /// Something did not fit into the kernel's memory, which was told.
    full: bool,
    /// The warning about a process with too many mappings was given.
    crowded: bool,
    /// Tables that could not be compiled.
    failed: u64,
    /// Rules that the kernel side did not take, as their files have too many.
    rules_left_out: u64,
    /// Files whose file system did not answer in time.
    unanswered: u64,
}

impl TableWarnings {
    pub(super) fn add(&mut self, warning: Warning) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(warning);
        }
    }

    /// Warns, once, that something did not fit into the kernel's memory.
    pub(super) fn add_full(&mut self, message: String) {
        if !std::mem::replace(&mut self.full, true) {
            let hint = "raise --table-memory, or profile fewer processes at a time";
            self.add(Warning::new(WarningKind::Tables, message, hint));
        }
    }

    /// Whether something did not fit so far.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// Warns, once, of a process that has more mappings than its quota.
    pub(super) fn add_crowded(&mut self, pid: u32, mappings: usize) {
        if !std::mem::replace(&mut self.crowded, true) {
            let message = format!(
                "process {pid} maps code of files {mappings} times, of which {MAX_ENTRIES} are known in the kernel; its stacks through others are \
                 truncated"
            );
            self.add(Warning::bare(WarningKind::Tables, message));
        }
    }

    /// The table of a file could not be compiled.
    pub(super) fn add_failed(&mut self, path: &str, error: impl std::fmt::Display) {
        self.failed += 1;
        let message = format!("no unwind table for {path}: {error}; frame pointers are followed there");
        self.add(Warning::bare(WarningKind::Tables, message));
    }

    /// The file system of a file did not answer in time.
    pub(super) fn add_unanswered(&mut self) {
        self.failed += 1;
        self.unanswered += 1;
    }

    /// It has answered after all.
    pub(super) fn answered_late(&mut self) {
        self.failed -= 1;
        self.unanswered = self.unanswered.saturating_sub(1);
    }

    /// Counts and tells rules of a file that the kernel side did not take.
    pub(super) fn add_left_out(&mut self, path: &str, table: &Table, left_out: usize) {
        if left_out == 0 {
            return;
        }
        self.rules_left_out += left_out as u64;
        let all = table.rules.len();
        let message = format!(
            "{path} has {all} different unwind rules, of which {left_out} are left out; stacks through it may be cut, other programs lose nothing"
        );
        self.add(Warning::bare(WarningKind::Tables, message));
    }

    /// Tables that could not be compiled.
    pub(super) fn failed(&self) -> u64 {
        self.failed
    }

    /// Rules that the kernel side did not take, so far.
    pub(super) fn rules_left_out(&self) -> u64 {
        self.rules_left_out
    }

    /// What is to be told. `of_room`: of tables that left.
    pub(super) fn take(&mut self, of_room: Option<Warning>) -> Vec<Warning> {
        let mut warnings = std::mem::take(&mut self.warnings);
        warnings.extend(of_room);
        let (files, whose) = match std::mem::take(&mut self.unanswered) {
            0 => return warnings,
            1 => ("1 file".to_owned(), "whose file system does"),
            files => (format!("{files} files"), "whose file systems do"),
        };
        let message =
            format!("no unwind tables for {files} {whose} not answer; frame pointers are followed there");
        warnings.push(Warning::bare(WarningKind::Tables, message));
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_failures_are_counted_and_a_bounded_number_is_told() {
        let mut told = TableWarnings::default();
        (0..2 * MAX_WARNINGS).for_each(|_| told.add_failed("/lib/a.so", "it is broken"));
        told.add_full("no room".to_owned());
        told.add_unanswered();
        told.add_unanswered();
        told.answered_late();
        assert_eq!(told.failed(), 2 * MAX_WARNINGS as u64 + 1);
        assert!(told.is_full());
        let warnings = told.take(None);
        assert_eq!(warnings.len(), MAX_WARNINGS + 1);
        assert!(warnings[MAX_WARNINGS].message.starts_with("no unwind tables for 1 file whose"));
        assert!(told.take(None).is_empty());
    }
}
