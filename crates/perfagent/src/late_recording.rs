//! A recording whose names may still be on their way.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use recording::{Names, Recording, SymbolizedRecording};
use report::{EndedBy, Finding, Ledger, Report};
use symbolization::LateNames;

use crate::{CancelToken, usage};

/// A recording with names and ledgers, and the report on it.
#[derive(Clone, Debug, Default)]
struct Complete {
    symbolized: SymbolizedRecording,
    /// Made when it is first asked for, if the recording came without it.
    report: OnceLock<Report>,
}

impl Complete {
    fn of(recording: Recording, names: Names) -> Self {
        let (symbolized, report) = report::complete(recording, names, EndedBy::Request);
        Self { symbolized, report: OnceLock::from(report) }
    }
}

/// A recording without names, and the search for them.
#[derive(Default)]
struct Incomplete {
    recording: Recording,
    names: Option<Arc<LateNames>>,
}

/// A recording that is completed when it is first asked for its names or its ledgers.
#[derive(Default)]
pub(crate) struct LateRecording {
    complete: OnceLock<Complete>,
    incomplete: Mutex<Incomplete>,
    given_up: CancelToken,
}

impl LateRecording {
    /// A recording that has its names.
    pub(crate) fn complete(symbolized: SymbolizedRecording) -> Self {
        Self::from(Complete { symbolized, report: OnceLock::new() })
    }

    /// A recording with these names. Its ledgers are made from them.
    pub(crate) fn with_names(recording: Recording, names: Names) -> Self {
        Self::from(Complete::of(recording, names))
    }

    /// A recording whose names are being looked for.
    pub(crate) fn new(recording: Recording, names: LateNames) -> Self {
        let incomplete = Incomplete { recording, names: Some(Arc::new(names)) };
        Self { incomplete: Mutex::new(incomplete), ..Self::default() }
    }

    /// The recording with its names. Waits for them.
    pub(crate) fn symbolized(&self) -> &SymbolizedRecording {
        &self.wait().symbolized
    }

    /// Findings about it. Waits for its names.
    pub(crate) fn findings(&self) -> &[Finding] {
        &self.report().warnings
    }

    /// Its ledgers. Waits for its names.
    pub(crate) fn ledgers(&self) -> &[Ledger] {
        &self.report().ledgers
    }

    fn report(&self) -> &Report {
        let Complete { symbolized, report } = self.wait();
        report.get_or_init(|| Report::of(symbolized, EndedBy::Request))
    }

    /// The recording with its names, owned; copied if it is shared.
    pub(crate) fn into_symbolized(self: Arc<Self>) -> SymbolizedRecording {
        self.wait();
        match Arc::try_unwrap(self) {
            Ok(own) => own.complete.into_inner().unwrap_or_default().symbolized,
            Err(shared) => shared.symbolized().clone(),
        }
    }

    /// Places in code that were not looked up so far. 0 if it has its names.
    pub(crate) fn names_left(&self) -> u64 {
        let names = self.incomplete().names.clone();
        names.map_or(0, |names| names.left())
    }

    /// Ends the search for its names.
    pub(crate) fn give_up(&self) {
        self.given_up.cancel();
    }

    fn wait(&self) -> &Complete {
        self.complete.get_or_init(|| {
            let names = self.incomplete().names.clone();
            let names = names.map(|names| names.wait(|| self.given_up.is_cancelled(), |_| {}));
            let Incomplete { mut recording, .. } = std::mem::take(&mut *self.incomplete());
            // The names take memory too.
            let peak = &mut recording.accounting.cost.agent_rss_peak_kib;
            *peak = usage::peak_rss_kib().max(*peak);
            Complete::of(recording, names.unwrap_or_default())
        })
    }

    fn incomplete(&self) -> MutexGuard<'_, Incomplete> {
        self.incomplete.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Complete> for LateRecording {
    fn from(complete: Complete) -> Self {
        Self { complete: OnceLock::from(complete), ..Self::default() }
    }
}

impl fmt::Debug for LateRecording {
    /// Does not wait.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.complete.get() {
            Some(complete) => complete.symbolized.fmt(f),
            None => {
                f.debug_struct("Recording").field("names_left", &self.names_left()).finish_non_exhaustive()
            }
        }
    }
}
