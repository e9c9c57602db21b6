//! What became of the intervals of a rotation.

use recording::Mode;
use report::{FindingKind, Intervals, Ledger};

use crate::finished::{Ended, Warning, WarningKind};
use crate::output::{OutputReport, Profiles, modes};
use crate::{Recording, session};

/// Failed outputs of intervals that are kept for the report.
const MAX_FAILED: usize = 64;
/// Warnings of intervals that are kept for the report.
const MAX_WARNINGS: usize = 16;

/// What became of the intervals.
#[derive(Default)]
pub(crate) struct Rotated {
    /// How many there were.
    pub(crate) intervals: u64,
    /// The sums of the intervals, for a capture that writes its outputs itself.
    pub(crate) sums: Option<Intervals>,
    /// The last interval that ended by a cut.
    pub(crate) last: Option<Recording>,
    /// Outputs that could not be written.
    pub(crate) failed: Vec<OutputReport>,
    /// What was lost in intervals. An interval without samples is nothing to warn of.
    lost: Vec<Warning>,
    /// Intervals that were written before their names were complete.
    unnamed_intervals: u64,
    /// Code locations in them without a name for that reason.
    unnamed_places: u64,
}

impl Rotated {
    /// One that adds up what the intervals have.
    pub(super) fn summing_up() -> Self {
        Self { sums: Some(Intervals::default()), ..Self::default() }
    }

    /// Adds an interval whose names are as complete as they get, also to the sums.
    pub(super) fn add_with(&mut self, recording: &Recording, profiles: &Profiles<'_>) {
        self.sum_up(profiles, recording.ledgers());
        self.last = Some(recording.clone());
        self.add(recording);
    }

    /// Adds an interval whose names are as complete as they get.
    pub(super) fn add(&mut self, recording: &Recording) {
        self.intervals += 1;
        let lost = recording.findings().iter().filter(|finding| finding.kind == FindingKind::Lost);
        let room = MAX_WARNINGS.saturating_sub(self.lost.len());
        self.lost.extend(lost.take(room).cloned().map(session::warning));
        let unnamed = recording.names_abandoned();
        self.unnamed_intervals += u64::from(unnamed > 0);
        self.unnamed_places += unnamed;
    }

    /// Adds the profiles of an interval to the sums.
    pub(crate) fn sum_up(&mut self, profiles: &Profiles<'_>, ledgers: &[Ledger]) {
        let Some(sums) = &mut self.sums else { return };
        // A report of locks shows more than the functions that wait for them.
        let modes = modes(profiles.recording()).into_iter().filter(|mode| *mode != Mode::Locks);
        let profiles: Vec<_> = modes.filter_map(|mode| Some((mode, profiles.get(mode)?))).collect();
        sums.add(ledgers, profiles.iter().map(|(mode, profile)| (*mode, &**profile)));
    }

    /// Replaces what is said about profiles of the last interval without samples: only a profile that has none in any interval is worth a warning.
    pub(crate) fn judge_samples(&self, warnings: &mut Vec<Warning>, last: &Recording, ended_by: Ended) {
        let Some(sums) = &self.sums else { return };
        warnings.retain(|warning| warning.kind != WarningKind::NoSamples);
        let silent = sums.without_samples(&last.model().recording, session::ended_by(ended_by));
        warnings.extend(silent.into_iter().map(session::warning));
    }

    /// Adds outputs that could not be written.
    pub(super) fn add_failed(&mut self, failed: Vec<OutputReport>) {
        let room = MAX_FAILED.saturating_sub(self.failed.len());
        self.failed.extend(failed.into_iter().take(room));
    }

    /// What is to be said about the intervals.
    pub(crate) fn take_warnings(&mut self) -> Vec<Warning> {
        let mut warnings = std::mem::take(&mut self.lost);
        if self.unnamed_intervals > 0 {
            let message = format!(
                "{} of {} intervals were written before all their names were found: {} places in code stay addresses there",
                self.unnamed_intervals, self.intervals, self.unnamed_places
            );
            let hint =
                "choose longer intervals, or write recordings and name them later (render --resymbolize)";
            warnings.push(Warning::new(WarningKind::Names, message, hint));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use recording::{NameOutcome, SymbolizedRecording};

    use super::*;

    fn interval(abandoned: u64) -> Recording {
        let mut symbolized = SymbolizedRecording::default();
        symbolized.names.outcome = NameOutcome { abandoned, ..NameOutcome::default() };
        Recording::new(symbolized)
    }

    #[test]
    fn intervals_that_were_written_without_all_names_are_told_once() {
        let mut rotated = Rotated::default();
        [0, 5, 0, 7].iter().for_each(|abandoned| rotated.add(&interval(*abandoned)));
        let warnings = rotated.take_warnings();
        let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
        assert!(warning.message.starts_with("2 of 4 intervals "), "{warning:?}");
        assert!(warning.message.contains(": 12 places in code"), "{warning:?}");
        rotated = Rotated::default();
        rotated.add(&interval(0));
        assert!(rotated.take_warnings().is_empty());
    }
}
