//! The trait by which names are found.

use profile::Svma;
use recording::{Fetches, KernelNaming};
use symbols::SourceLine;

use crate::request::Request;

/// What a source says to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// The source does not know such places: the next one is asked.
    NotMine,
    /// The functions at each address in the order of the request, the innermost inlined function first. Addresses without a line go on to
    /// the next source.
    Names(Vec<Vec<SourceLine>>),
    /// Of places in a module: where the function at each address begins, in the order of the request, as far as that is known. A place
    /// without a name is shown as this function. All addresses go on to the next source.
    FunctionStarts(Vec<Option<Svma>>),
    /// The source may know names when the interval ends; it is asked again then, after [`SymbolSource::wait`]. The names of the next
    /// sources are used until then if `ask_others` is set; else no other source is asked.
    Later {
        /// Whether names of the next sources may be used.
        ask_others: bool,
    },
    /// No name of any source may be used at these addresses.
    Refused,
}

/// Something that finds names.
///
/// All calls come from one thread, so a source need not be `Send` to be used; [`crate::Sources::first`] takes a function that makes it
/// there. A panic of any method is caught: it costs the answer, it is counted, and the names' outcome tells it.
pub trait SymbolSource {
    /// What it is called in messages. Asked once.
    fn name(&self) -> &str;

    /// Finds names. Large files come in several requests, so that symbolization can be abandoned between them.
    fn lookup(&mut self, request: &Request) -> Answer;

    /// Why it could not name kernel addresses, if it is there to do so. Asked when no source answered a request.
    fn kernel_naming(&self) -> Option<KernelNaming> {
        None
    }

    /// All places of an interval were asked for, and some answers were [`Answer::Later`]: waits until the source knows more, or until
    /// `given_up` holds.
    fn wait(&mut self, given_up: &dyn Fn() -> bool) {
        let _ = given_up;
    }

    /// What was fetched for the interval that ends, if the source fetches anything.
    fn fetches(&mut self) -> Option<Fetches> {
        None
    }

    /// All places of a delivery in one module were looked up; the source may release memory. `large`: its file is so large that what was
    /// read of it must not be kept.
    fn delivered(&mut self, large: bool) {
        let _ = large;
    }

    /// All names were found and handed over: the source may keep what it learned for later runs.
    fn keep(&mut self) {}

    /// An interval ends. Gives what is to be said about its names, one line each.
    fn end_interval(&mut self) -> Vec<String> {
        Vec::new()
    }
}
