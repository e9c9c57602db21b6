//! The trait by which names are found.

use recording::{KernelNaming, NameOutcome};
use symbols::SourceLine;

use crate::request::Request;

/// What a source says to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The source does not know such places: the next one is asked.
    NotMine,
    /// The functions at each address in the order of the request, the innermost inlined function first. Addresses without a line go on to
    /// the next source.
    Names(Vec<Vec<SourceLine>>),
}

/// Something that finds names. It stays on the thread that made it, so it need not be `Send`; see [`crate::Sources`].
pub trait SymbolSource {
    /// What it is called in messages.
    fn name(&self) -> &'static str;

    /// Finds names. Large files come in several requests, so that symbolization can be abandoned between them.
    fn lookup(&mut self, request: &Request<'_>) -> Answer;

    /// Why it could not name kernel addresses, if it is there to do so. Asked when no source answered a request.
    fn kernel_naming(&self) -> Option<KernelNaming> {
        None
    }

    /// All places of a delivery in one module were looked up; the source may release memory. `large`: its file is so large that what was
    /// read of it must not be kept.
    fn delivered(&mut self, large: bool) {
        let _ = large;
    }

    /// An interval ends: adds what is to be said about its names.
    fn end_interval(&mut self, outcome: &mut NameOutcome) {
        let _ = outcome;
    }
}
