//! Walks of Python's frames: how they end, and how many ended in each way.

use crate::abi::skeleton::types::{counter, python_end};

/// How a walk of Python's frames ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PythonEnd {
    /// At the end of the chain.
    Root = python_end::PYTHON_ROOT.0 as isize,
    /// The thread runs no Python.
    NoState = python_end::PYTHON_NO_STATE.0 as isize,
    /// What is kept for the thread is not the state of this thread.
    OtherThread = python_end::PYTHON_OTHER_THREAD.0 as isize,
    /// Memory could not be read, or so many CPUs walked such frames at that moment that there was no room for one more walk.
    Fault = python_end::PYTHON_FAULT.0 as isize,
    /// There are more frames than a walk takes.
    Limit = python_end::PYTHON_LIMIT.0 as isize,
    /// The thread runs no Python function now.
    NoFrame = python_end::PYTHON_NO_FRAME.0 as isize,
    /// The outermost frame is not one where an evaluator began.
    Open = python_end::PYTHON_OPEN.0 as isize,
}

const ENDS: usize = python_end::PYTHON_ENDS.0 as usize;

impl PythonEnd {
    /// All of them.
    pub const ALL: [Self; ENDS] =
        [Self::Root, Self::NoState, Self::OtherThread, Self::Fault, Self::Limit, Self::NoFrame, Self::Open];
}

/// Counts of such walks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PythonWalks {
    ends: [u64; ENDS],
    /// Of all: walks that found the innermost call of the evaluator not in the chain yet.
    pub half_linked: u64,
    /// Code objects that were sent.
    pub codes_sent: u64,
    /// Code objects that did not fit into the ring. The next walk sends them again.
    pub codes_unsent: u64,
    /// Frames whose code object could not be read.
    pub codes_unreadable: u64,
}

impl PythonWalks {
    /// Walks that ended this way.
    #[must_use]
    pub fn walks(&self, end: PythonEnd) -> u64 {
        self.ends[end as usize]
    }

    /// From sums indexed by `enum counter` of `bpf/abi/counters.h`.
    pub(crate) fn from_sums(sums: &[u64]) -> Self {
        let at = |index: counter| sums.get(index.0 as usize).copied().unwrap_or(0);
        let walks = counter::COUNT_PYTHON_WALKS.0 as usize;
        Self {
            ends: std::array::from_fn(|end| sums.get(walks + end).copied().unwrap_or(0)),
            half_linked: at(counter::COUNT_PYTHON_HALF_LINKED),
            codes_sent: at(counter::COUNT_CODES_SENT),
            codes_unsent: at(counter::COUNT_CODES_UNSENT),
            codes_unreadable: at(counter::COUNT_CODES_UNREADABLE),
        }
    }
}
