//! What each form of table tells.

/// A stretch of code units with one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Code units.
    pub len: u32,
    /// `None`: the table says that there is none.
    pub line: Option<u32>,
}

/// The line after a step of the table; lines that cannot be are none.
pub(super) fn line(number: i64) -> Option<u32> {
    u32::try_from(number).ok()
}
