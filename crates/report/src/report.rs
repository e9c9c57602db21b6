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
    use recording::{Counters, Event, EventAccounting, KernelNaming, Mode, State, Unit, WalkEnd};

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
    fn each_of_several_events_has_its_profile_and_its_ledger() {
        let mut capture = TestRecording::new();
        let event = |kind: &str, period| Event::sampled(kind, kind, period, Unit::Count);
        capture.settings.event = Some(event("page-faults", 1));
        capture.settings.further_events = vec![event("context-switches", 1), event("a:b", 4)];
        (capture.settings.off_cpu_profile, capture.settings.wall_profile) = (false, false);
        let main = capture.frame("main");
        let stack = capture.stack(&[], &[main], WalkEnd::Root, State::Sampled);
        capture.add_samples(stack, 9);
        capture.add_samples_of(2, stack, 5);
        capture.accounting.sampler.samples = 9;
        let of_third = EventAccounting {
            sampler: Counters { samples: 5, lost_busy: 2, ..Counters::default() },
            ..EventAccounting::default()
        };
        capture.accounting.further = vec![EventAccounting::default(), of_third];
        let symbolized = capture.finish();
        let modes = [Mode::Event, Mode::FurtherEvent(1), Mode::FurtherEvent(2)];
        assert_eq!(symbolized.recording.settings.modes(), modes);
        let values = modes.map(|mode| {
            let made = crate::profile(&symbolized, mode, &[]);
            (made.default_sample_type, made.samples.first().map(|sample| sample.values.clone()))
        });
        let values = values.each_ref().map(|(kind, values)| (kind.as_str(), values.as_deref()));
        assert_eq!(
            values,
            [("page-faults", Some(&[9, 9][..])), ("context-switches", None), ("a:b", Some(&[5, 20]))]
        );
        let report = Report::of(&symbolized, EndedBy::Request);
        let figures: Vec<_> = report
            .ledgers
            .iter()
            .map(|ledger| (ledger.mode, &*ledger.event, ledger.samples, ledger.lost(), ledger.walks[0]))
            .collect();
        assert_eq!(
            figures,
            [
                (modes[0], "page-faults", 9, 0, 9),
                (modes[1], "context-switches", 0, 0, 0),
                (modes[2], "a:b", 5, 2, 5)
            ]
        );
        assert_eq!(
            messages(&report),
            [
                "no samples of context-switches: the event did not happen in the targets, or less often than its period"
            ]
        );
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
