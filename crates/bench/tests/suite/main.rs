//! The measuring programs themselves.
#![expect(clippy::unwrap_used, reason = "a test's helper fails the test")]

mod cost;
