//! What is poor about a recording, as lines of an output.

use recording::SymbolizedRecording;
use report::{EndedBy, Finding, Packages, Report};

/// What went less well, and advice. Packages of this machine are left out: the output may be read on another one.
pub(super) fn warnings(symbolized: &SymbolizedRecording) -> Vec<String> {
    let Report { ledgers, warnings } = Report::of(symbolized, EndedBy::Request);
    let advice = report::advice(symbolized, &ledgers, &Packages::default());
    let line = |Finding { message, hint, .. }: &Finding| match hint {
        Some(hint) => format!("{message}: {hint}"),
        None => message.clone(),
    };
    warnings.iter().map(line).chain(advice.iter().map(report::Advice::line)).collect()
}
