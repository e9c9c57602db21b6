//! The report of a finished capture.

use recording::{Names, Recording, SymbolizedRecording};

use crate::findings::{self, EndedBy, Finding};
use crate::freeze::freeze;
use crate::ledger::{self, Ledger};

/// What was recorded and lost, and what is to be said about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// One for each profile that was taken, the on-CPU profile first; without a profile, the one of scheduler statistics.
    pub ledgers: Vec<Ledger>,
    /// What went less well.
    pub warnings: Vec<Finding>,
}

impl Report {
    /// The report of a recording. `ended_by` tells why a profile may be empty.
    #[must_use]
    pub fn of(symbolized: &SymbolizedRecording, ended_by: EndedBy) -> Self {
        let ledgers = ledger::complete(symbolized);
        let warnings = findings::of(symbolized, &ledgers, ended_by);
        Self { ledgers, warnings }
    }
}

/// A recording with its names and its frozen ledgers, and the report on it.
#[must_use]
pub fn complete(recording: Recording, names: Names, ended_by: EndedBy) -> (SymbolizedRecording, Report) {
    let mut symbolized = SymbolizedRecording { recording, names, ledgers: Vec::new() };
    let report = Report::of(&symbolized, ended_by);
    symbolized.ledgers = freeze(&report.ledgers);
    (symbolized, report)
}

#[cfg(test)]
mod tests {
    use recording::{KernelNaming, Mode, State, WalkEnd};

    use super::*;
    use crate::findings::FindingKind;
    use crate::test_recording::TestRecording;

    fn messages(report: &Report) -> Vec<&str> {
        report.warnings.iter().map(|finding| finding.message.as_str()).collect()
    }

    /// A capture in which one of twenty frames of the on-CPU profile has a name.
    fn nameless() -> TestRecording {
        let mut capture = TestRecording::new();
        let (named, kernel) = (capture.frame("named"), capture.kernel_frame("kernel"));
        let nameless = [("/lib/x", 1), ("/lib/y", 2)].map(|(path, svma)| capture.nameless(path, svma));
        let sampled = capture.stack(&[kernel], &[named], WalkEnd::Root, State::Sampled);
        capture.add_samples(sampled, 9);
        let sampled = capture.stack(&[], &nameless, WalkEnd::Root, State::Sampled);
        capture.add_samples(sampled, 1);
        capture.accounting.sampler.samples = 10;
        capture
    }

    #[test]
    fn names_are_told_before_samples() {
        let mut capture = nameless();
        capture.names.outcome.kernel = KernelNaming::Hidden;
        capture.names.outcome.abandoned = 2;
        capture.accounting.sampler.lost_map_full = 3;
        let report = Report::of(&capture.finish(), EndedBy::Request);
        let kinds: Vec<_> = report.warnings.iter().map(|finding| finding.kind).collect();
        let expected =
            [FindingKind::KernelNamesHidden, FindingKind::Names, FindingKind::Lost, FindingKind::NoSamples];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn a_capture_that_never_began_says_so_and_nothing_else() {
        let mut capture = TestRecording::new();
        capture.accounting.never_began = true;
        let report = Report::of(&capture.finish(), EndedBy::Request);
        assert_eq!(messages(&report), ["no samples: stopped before sampling began"]);
        assert_eq!(report.ledgers.len(), 3);
        assert!(report.ledgers.iter().all(|ledger| ledger.never_began));
    }

    #[test]
    fn frozen_ledgers_have_the_entries_of_the_report() {
        let SymbolizedRecording { recording, names, .. } = nameless().finish();
        let (SymbolizedRecording { ledgers: frozen, .. }, report) =
            complete(recording, names, EndedBy::Request);
        assert_eq!(
            frozen.iter().map(|ledger| ledger.mode).collect::<Vec<_>>(),
            [Mode::OnCpu, Mode::OffCpu, Mode::Wall]
        );
        assert_eq!(frozen[0].entries, report.ledgers[0].entries());
        assert!(frozen[0].entries.contains(&("symbolized_pct".to_owned(), "90.00".to_owned())));
    }
}
