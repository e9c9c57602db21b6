//! The completeness ledger: what was recorded, what was lost and why, what it cost.

mod complete;
mod entries;
mod frames;
mod later;
mod model;
mod process;
mod running;
mod walks;
mod wall_clock;

#[cfg(test)]
mod tests;

pub(crate) use self::complete::complete;
pub use self::frames::FrameCounts;
pub(crate) use self::later::include;
pub use self::model::Ledger;
pub use self::process::ProcessLedger;
pub use self::running::running;
pub use self::wall_clock::WallClock;
