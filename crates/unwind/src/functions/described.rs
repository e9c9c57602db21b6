//! What one description of `.eh_frame` covers.

use std::ops::Range;

/// What one description covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Described {
    pub start: u64,
    pub len: u32,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It begins with the state of a call.
    Function,
    /// It begins with another state, so a jump may lead to it.
    MaybePart,
    /// Stubs of calls into other files.
    Stubs,
}

impl Described {
    pub(super) fn range(&self) -> Range<u64> {
        self.start..self.start.saturating_add(u64::from(self.len))
    }
}

/// Of sorted, disjoint items, the one whose range has an address.
pub(crate) fn covering<T>(items: &[T], address: u64, range: impl Fn(&T) -> Range<u64>) -> Option<&T> {
    let behind = items.partition_point(|item| range(item).start <= address);
    items.get(behind.checked_sub(1)?).filter(|item| range(item).contains(&address))
}
