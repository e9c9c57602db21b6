//! Captures that are cut into intervals: what the intervals say together is what one capture says, and each says it whole.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod added;
mod files;
mod life;
mod naming;
mod program;
mod seams;
mod singles;
mod storm;
mod sums;
mod switches;
