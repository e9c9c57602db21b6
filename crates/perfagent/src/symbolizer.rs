//! Names for recordings, later and elsewhere.

use std::cell::RefCell;

use recording::SymbolizedRecording;
use symbolization::{AbandonToken, Options, Sources};

use crate::CancelToken;
use crate::symbol_source::{GivenSources, SymbolSource};

/// Looks up the names of recordings, in the files of this machine and by sources of the host program. It needs no privileges.
///
/// Recordings of one capture share what was read: use one symbolizer for all of them.
///
/// ```
/// let recording = perfagent::Recording::default();
/// let named = recording.symbolize(&perfagent::Symbolizer::new());
/// assert!(named.modes().is_empty(), "nothing was recorded");
/// ```
#[derive(Default)]
pub struct Symbolizer {
    cancel: CancelToken,
    state: RefCell<State>,
}

enum State {
    /// Nothing was looked up yet.
    Described(GivenSources),
    Working(Box<symbolization::Symbolizer>),
}

impl Default for State {
    fn default() -> Self {
        Self::Described(GivenSources::default())
    }
}

impl std::fmt::Debug for Symbolizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Symbolizer").finish_non_exhaustive()
    }
}

impl Symbolizer {
    /// With the sources of perf-agent. Reads nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a source that is asked before those of perf-agent, and after those that were added before. Must be called before the first
    /// recording is named; later it has no effect.
    #[must_use]
    pub fn symbol_source(self, source: impl SymbolSource + Send + 'static) -> Self {
        if let State::Described(given) = &mut *self.state.borrow_mut() {
            given.add(source);
        }
        self
    }

    /// Ends the search for names when this token is cancelled. What was not looked up is told in the recording's warnings.
    #[must_use]
    pub fn cancelled_by(mut self, token: &CancelToken) -> Self {
        self.cancel = token.clone();
        self
    }

    /// Names a recording anew. Frames without a name here keep the names that they have.
    pub(crate) fn name(&self, recording: SymbolizedRecording) -> SymbolizedRecording {
        // Only a call from within a source could find it in use: then the names stay as they are.
        let Ok(mut state) = self.state.try_borrow_mut() else { return recording };
        if let State::Described(given) = &mut *state {
            let options = Options::default();
            let sources = std::mem::take(given).before(Sources::standard(&options));
            let cancel = self.cancel.clone();
            let token = AbandonToken::when(move || cancel.is_cancelled());
            let working = symbolization::Symbolizer::with_sources(sources, &options, token);
            *state = State::Working(Box::new(working));
        }
        match &mut *state {
            State::Working(symbolizer) => symbolizer.symbolize_again(recording),
            State::Described(_) => recording,
        }
    }
}
