//! What is counted about walks of Python frames.

/// What is counted about walks of the Python frames of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PythonCounter {
    /// Walks that ended at the outermost frame.
    Root,
    /// The thread has no state of the interpreter: it runs no Python.
    NoState,
    /// The state that was found is of another thread.
    OtherThread,
    /// Memory of the process could not be read.
    Fault,
    /// The stack has more frames than are kept.
    Limit,
    /// The thread has a state and runs no function.
    NoFrame,
    /// The chain of frames does not end where a call of the interpreter begins.
    Open,
    /// Of all walks: the innermost call of the interpreter was just beginning; the frames of its callers are known.
    HalfLinked,
    /// Functions whose name was sent.
    CodeSent,
    /// Functions whose name did not fit into the ring. The next walk sends it again.
    CodeUnsent,
    /// Functions of which nothing could be read.
    CodeUnreadable,
}

impl PythonCounter {
    /// All of them with the names that the ledger gives them, in the order of their numbers.
    pub const NAMES: [(&'static str, Self); 11] = [
        ("root", Self::Root),
        ("no_state", Self::NoState),
        ("other_thread", Self::OtherThread),
        ("fault", Self::Fault),
        ("limit", Self::Limit),
        ("no_frame", Self::NoFrame),
        ("open", Self::Open),
        ("half", Self::HalfLinked),
        ("code_sent", Self::CodeSent),
        ("code_unsent", Self::CodeUnsent),
        ("code_unreadable", Self::CodeUnreadable),
    ];
}

/// Counts by number of [`PythonCounter`].
pub type PythonWalks = [u64; PythonCounter::NAMES.len()];
