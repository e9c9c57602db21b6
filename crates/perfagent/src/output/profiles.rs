//! The profiles of a recording.

use profile::Profile;
use recording::{FrozenLedger, Mode, SymbolizedRecording};

/// The profiles that a recording has.
pub(crate) fn modes(symbolized: &SymbolizedRecording) -> Vec<Mode> {
    let recording = &symbolized.recording;
    if recording.events.is_empty() {
        return Vec::new();
    }
    recording.settings.modes().into_iter().filter(|mode| mode.has_stacks()).collect()
}

/// The profile of a mode, if the recording has it.
pub(crate) fn profile(symbolized: &SymbolizedRecording, mode: Mode) -> Option<Profile> {
    modes(symbolized).contains(&mode).then(|| report::profile(symbolized, mode, ledger(symbolized, mode)))
}

/// Keys and values of the ledger of a mode, in their order; none if the recording has no such profile.
pub(crate) fn ledger(symbolized: &SymbolizedRecording, mode: Mode) -> &[(String, String)] {
    let ledger = symbolized.ledgers.iter().find(|ledger| ledger.mode == mode);
    ledger.map_or(&[], |FrozenLedger { entries, .. }| entries)
}
