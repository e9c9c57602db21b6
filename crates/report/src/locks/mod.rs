//! Which locks threads wait for: one row for each lock that one thread holds while others wait, and one for each place where threads wait for
//! something else of other threads, with the stacks of waiters, owners and wakers.
//!
//! A lock is told by its variable where it is one, else by its address. What kind of lock it is follows from the functions above the system
//! call, else from the call (`class.rs`). Not here: what keeps the counts apart (`recording`), and files (`formats`).

mod class;
mod frames;
mod lengths;
mod model;
mod names;
mod rows;
mod text;

use recording::{Mode, SymbolizedRecording};

pub use self::class::LockClass;
pub use self::model::{HeldBy, LockReport, LockRow, StackShare};
pub(crate) use self::names::LockNames;
pub use self::text::lock_text;

/// What is known of the locks; none if the recording has none.
#[must_use]
pub fn locks(symbolized: &SymbolizedRecording) -> Option<LockReport> {
    let is_there = symbolized.recording.settings.modes().contains(&Mode::Locks);
    is_there.then(|| rows::report(symbolized))
}

#[cfg(test)]
mod tests;
