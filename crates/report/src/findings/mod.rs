//! What is to be said about a finished capture.

mod finding;
mod names;
mod samples;

pub use self::finding::{EndedBy, Finding, FindingKind};

use recording::{Mode, SymbolizedRecording};

use crate::ledger::Ledger;

/// All findings: about names first, then about the samples of each profile.
pub(crate) fn of(symbolized: &SymbolizedRecording, ledgers: &[Ledger], ended_by: EndedBy) -> Vec<Finding> {
    let recording = &symbolized.recording;
    if recording.accounting.never_began {
        return vec![samples::never_began()];
    }
    let mut findings = names::of(&symbolized.names.outcome);
    findings.extend(samples::not_run(recording));
    // A wall-clock profile lacks nothing that neither of the others lacks.
    for ledger in ledgers
        .iter()
        .filter(|ledger| matches!(ledger.mode, Mode::OnCpu | Mode::Event | Mode::Heap | Mode::OffCpu))
    {
        findings.extend(samples::no_room(ledger));
        if ledger.samples == 0 {
            findings.push(samples::none(recording, ledger.mode, ended_by));
        }
    }
    findings
}
