//! The measurements themselves.
#![expect(clippy::unwrap_used, reason = "a test's helper fails the test")]

mod cost;
mod scenario;

use std::path::PathBuf;

/// Where programs are built; crate `truth` builds its own beside it.
fn out() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bench")
}
