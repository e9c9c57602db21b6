//! A process that was not switched.

/// Why a process was not switched on or off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) pid: u32,
    /// The kind, a stable word.
    pub(super) token: &'static str,
    /// The cause in words.
    pub(super) cause: String,
}

/// What every process without an interpreter is refused with.
pub(super) const NOT_PYTHON: &str = "not_python";
/// The kind that has no word of its own.
pub(super) const OTHER: &str = "other";
