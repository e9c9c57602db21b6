//! What is to be said about a finished capture.

mod finding;
mod names;
mod samples;

pub use self::finding::{EndedBy, Finding, FindingKind};

use recording::{Mode, Recording, SymbolizedRecording};

use crate::ledger::Ledger;

/// All findings: about names first, then about the samples of each profile.
pub(crate) fn of(symbolized: &SymbolizedRecording, ledgers: &[Ledger], ended_by: EndedBy) -> Vec<Finding> {
    let recording = &symbolized.recording;
    if recording.accounting.never_began {
        return vec![samples::never_began()];
    }
    let mut findings = names::of(&symbolized.names.outcome);
    findings.extend(samples::not_run(recording));
    for ledger in taken(ledgers) {
        findings.extend(samples::no_room(ledger));
        findings.extend(samples::without_value(ledger));
    }
    findings.extend(without_samples(recording, ledgers, ended_by));
    findings
}

/// Which profiles have no samples, and why.
pub(crate) fn without_samples(
    recording: &Recording,
    ledgers: &[Ledger],
    ended_by: EndedBy,
) -> impl Iterator<Item = Finding> {
    let empty = taken(ledgers).filter(|ledger| ledger.samples == 0 && !ledger.never_began);
    empty.map(move |ledger| samples::none(recording, ledger.mode, ended_by))
}

/// The ledgers of the profiles with samples of their own. A wall-clock profile lacks nothing that neither of the others lacks.
fn taken(ledgers: &[Ledger]) -> impl Iterator<Item = &Ledger> {
    ledgers.iter().filter(|ledger| ledger.mode != Mode::Wall && ledger.mode.has_stacks())
}
