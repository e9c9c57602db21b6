//! The profiles of a recording.

use std::cell::RefCell;
use std::rc::Rc;

use super::names::file_word;
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

/// The words for profiles in the names of files, each once: the mode, or the event where several were sampled.
pub(crate) fn words(symbolized: &SymbolizedRecording) -> Vec<(Mode, String)> {
    let settings = &symbolized.recording.settings;
    let mut words: Vec<(Mode, String)> = Vec::new();
    for mode in modes(symbolized) {
        let event = settings.event_of(mode).filter(|_| !settings.further_events.is_empty());
        let word = event.map_or_else(|| mode.name().to_owned(), |event| file_word(event.kind()));
        let is_free = |word: &str| words.iter().all(|(_, known)| known != word);
        let numbered = (2..).map(|number| format!("{word}-{number}"));
        let free = std::iter::once(word.clone()).chain(numbered).find(|word| is_free(word));
        words.push((mode, free.unwrap_or(word)));
    }
    words
}

/// The profile of a mode, if the recording has it.
pub(crate) fn profile(symbolized: &SymbolizedRecording, mode: Mode) -> Option<Profile> {
    modes(symbolized).contains(&mode).then(|| report::profile(symbolized, mode, ledger(symbolized, mode)))
}

/// The profiles of a recording, each made when it is first asked for: several outputs show the same one.
pub(crate) struct Profiles<'r> {
    recording: &'r SymbolizedRecording,
    made: RefCell<Vec<(Mode, Rc<Profile>)>>,
}

impl<'r> Profiles<'r> {
    pub(crate) fn of(recording: &'r SymbolizedRecording) -> Self {
        Self { recording, made: RefCell::default() }
    }

    pub(crate) fn recording(&self) -> &'r SymbolizedRecording {
        self.recording
    }

    /// The profile of a mode, if the recording has it.
    pub(crate) fn get(&self, mode: Mode) -> Option<Rc<Profile>> {
        let mut made = self.made.borrow_mut();
        if let Some((_, known)) = made.iter().find(|(known, _)| *known == mode) {
            return Some(Rc::clone(known));
        }
        let profile = Rc::new(profile(self.recording, mode)?);
        made.push((mode, Rc::clone(&profile)));
        Some(profile)
    }
}

/// Keys and values of the ledger of a mode, in their order; none if the recording has no such profile.
pub(crate) fn ledger(symbolized: &SymbolizedRecording, mode: Mode) -> &[(String, String)] {
    let ledger = symbolized.ledgers.iter().find(|ledger| ledger.mode == mode);
    ledger.map_or(&[], |FrozenLedger { entries, .. }| entries)
}

#[cfg(test)]
mod tests {
    use recording::{Event, Recording, Settings, Unit};

    use super::*;

    #[test]
    fn a_profile_is_made_once_for_all_outputs() {
        let settings = Settings { cpu_profile: true, ..Settings::default() };
        let events = vec![Event::sampled("clock", "clock", 1, Unit::Count)];
        let recording = Recording { settings, events, ..Recording::default() };
        let recording = SymbolizedRecording { recording, ..SymbolizedRecording::default() };
        let profiles = Profiles::of(&recording);
        let [first, second] = [(); 2].map(|()| profiles.get(Mode::OnCpu).unwrap());
        assert!(Rc::ptr_eq(&first, &second));
        assert!(profiles.get(Mode::Heap).is_none(), "it was not taken");
    }
}
