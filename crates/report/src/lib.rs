//! What a recording shows: for each mode the samples with their labels and values, the completeness ledger, and what went less well.
//!
//! [`running`] makes the ledgers of a capture that goes on, [`Report::of`] the ledgers and findings of a finished one, [`complete()`] puts
//! the ledgers into the recording too, and [`profile()`] makes the profile of a mode. All figures of a ledger are computed here and nowhere else.
//!
//! Guaranteed: equal recordings give equal results, also in their order. Nothing panics, whatever a recording from a file contains:
//! ids are looked up with a check, and sums saturate. The crate is pure: it opens nothing and knows no Linux.
//!
//! Not here: names of code (`symbolization`), file formats (`formats`), hints that depend on the machine (`perfagent`).

#![forbid(unsafe_code)]

mod advice;
mod comparison;
mod figures;
mod findings;
mod freeze;
mod hottest;
mod intervals;
mod label_shares;
mod ledger;
mod locks;
mod merged;
mod name_shares;
mod neighbours;
mod profiles;
mod report;
mod scheduler_functions;
mod selection;
mod stack_lines;
#[cfg(test)]
mod test_recording;
mod wall_time;

pub use self::advice::{Advice, AdviceKind, DebugPackage, Packages, advice, nameless_files};
pub use self::comparison::{
    Against, Change, Comparison, ComparisonError, Judge, Part, Tally, compare, counted_value, exposure,
    found, limits,
};
pub use self::findings::{EndedBy, Finding, FindingKind};
pub use self::hottest::{HotFunction, Hottest, Order, hottest, ranked};
pub use self::intervals::Intervals;
pub use self::label_shares::{label_keys, label_shares};
pub use self::ledger::{FrameCounts, Ledger, ProcessLedger, WallClock, running};
pub use self::locks::{HeldBy, LockClass, LockReport, LockRow, StackShare, lock_text, locks};
pub use self::merged::{MergeError, merge};
pub use self::name_shares::correct_name_shares;
pub use self::neighbours::{Neighbours, neighbours};
pub use self::profiles::profile;
pub use self::report::{Report, complete};
