//! The reader from outside: files made by hand, read beside a reader that is not ours; damaged files.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod damaged;
mod file;
mod oracle;
mod profiles;
