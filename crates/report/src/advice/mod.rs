//! Advice: what is poor about a result, how much of it that concerns, and what exactly to do about it.
//!
//! Facts about the machine, such as which package has the symbols of a file, come in as data.

mod cut_stacks;
mod lost_samples;
mod nameless_code;
mod nameless_files;
mod piece;
mod python_functions;
mod runtime;

use recording::{Module, SymbolizedRecording};

pub use self::nameless_files::{DebugPackage, Packages};
pub use self::piece::{Advice, AdviceKind};
use crate::ledger::Ledger;

/// So many pieces of advice are given at most.
const MAX: usize = 3;

/// At most three pieces of advice, the one first that concerns most. `packages`: what is known about [`nameless_files`].
#[must_use]
pub fn advice(symbolized: &SymbolizedRecording, ledgers: &[Ledger], packages: &Packages) -> Vec<Advice> {
    let recording = &symbolized.recording;
    let profiles = ledgers.iter().filter(|ledger| ledger.mode.has_stacks());
    let mut all: Vec<Advice> = Vec::new();
    for ledger in profiles.clone() {
        all.extend(cut_stacks::of(recording, &symbolized.names, ledger));
        all.extend(lost_samples::of(ledger));
    }
    // One profile is enough: they go through the same files. Names that were not looked up are told as such.
    if let Some(first) = profiles.clone().next().filter(|_| symbolized.names.outcome.abandoned == 0) {
        all.extend(nameless_files::of(recording, &symbolized.names, first.mode, packages));
        all.extend(nameless_code::of(recording, &symbolized.names, first.mode));
        all.extend(python_functions::of(recording, &symbolized.names, first));
    }
    all.sort_by(|a, b| b.share_pct.total_cmp(&a.share_pct));
    let mut seen = Vec::new();
    all.retain(|advice| {
        let is_first = !seen.contains(&advice.kind);
        seen.push(advice.kind);
        is_first
    });
    all.truncate(MAX);
    all
}

/// The files whose missing symbols are worth advice, those first that concern most.
#[must_use]
pub fn nameless_files(symbolized: &SymbolizedRecording) -> Vec<&Module> {
    let recording = &symbolized.recording;
    let mode = recording.settings.modes().first().copied().filter(|mode| mode.has_stacks());
    let shares = mode.map(|mode| nameless_files::Shares::of(recording, &symbolized.names, mode));
    shares.map(|shares| shares.told().map(|(file, _)| file).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
