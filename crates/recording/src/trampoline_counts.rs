//! What was done with the perf trampolines of CPython.

use std::collections::BTreeMap;
use std::fmt;

/// Processes whose trampolines were switched on and off, and why others were not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrampolineCounts {
    /// Switched on.
    pub activated: u64,
    /// Left to whom had switched them on.
    pub already_on: u64,
    /// Switched off again, or ended meanwhile.
    pub deactivated: u64,
    /// Not switched on, by the word for the cause.
    pub skipped: BTreeMap<String, u64>,
    /// They may still be on after the end.
    pub failed: u64,
}

impl TrampolineCounts {
    /// Keys and values of the ledger.
    pub fn entries(&self) -> impl Iterator<Item = (String, u64)> {
        let named = [
            ("activated", self.activated),
            ("already_on", self.already_on),
            ("deactivated", self.deactivated),
            ("failed", self.failed),
        ];
        let named = named.into_iter().map(|(key, count)| (key.to_owned(), count));
        let skipped = self.skipped.iter().map(|(token, count)| (format!("skipped.{token}"), *count));
        named.chain(skipped).map(|(key, count)| (format!("inject.{key}"), count))
    }
}

impl fmt::Display for TrampolineCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { activated, already_on, deactivated, skipped, failed } = self;
        let all: u64 = skipped.values().sum();
        write!(
            f,
            "activated {activated}, already on {already_on}, deactivated {deactivated}, skipped {all}"
        )?;
        for (index, (token, count)) in skipped.iter().enumerate() {
            write!(f, "{}{token} {count}", if index == 0 { " (" } else { ", " })?;
        }
        if !skipped.is_empty() {
            f.write_str(")")?;
        }
        write!(f, ", failed {failed}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_told_in_one_line_and_as_entries() {
        let mut counts =
            TrampolineCounts { activated: 3, already_on: 1, deactivated: 2, ..Default::default() };
        assert_eq!(counts.to_string(), "activated 3, already on 1, deactivated 2, skipped 0, failed 0");
        counts.failed = 1;
        counts.skipped = [("not_python".to_owned(), 4), ("exited".to_owned(), 1)].into();
        assert_eq!(
            counts.to_string(),
            "activated 3, already on 1, deactivated 2, skipped 5 (exited 1, not_python 4), failed 1"
        );
        let entries: Vec<String> = counts.entries().map(|(key, count)| format!("{key}={count}")).collect();
        let expected = [
            "inject.activated=3",
            "inject.already_on=1",
            "inject.deactivated=2",
            "inject.failed=1",
            "inject.skipped.exited=1",
            "inject.skipped.not_python=4",
        ];
        assert_eq!(entries, expected);
    }
}
