//! Unwind tables from a disk cache, or compiled by worker threads.
//!
//! [`Cache`] stores compiled tables in `$XDG_CACHE_HOME/perf-agent/unwind`, by device, inode, size and times of the
//! file. Tables of files up to 8 MiB are also found by content, so that copies share one. A lost cache costs time only.
//! [`Compiler`] handles requests by priority on a few threads and sends each table, or the reason why there is none,
//! over a channel.
//!
//! A cached table is used only if its checksum, format version, key and every invariant of the table hold. No file gets
//! the table of another file by a claim of its own, such as its build-id. A directory or file that other users could
//! have written is not used. Each accepted request is answered exactly once while the receiver exists. Memory is
//! bounded: requests, unread answers and file sizes have limits.
//!
//! This crate neither finds files (crate `process`) nor knows the format of tables (crate `unwind`).
#![forbid(unsafe_code)]

mod cache;
mod compiler;
mod digest;
mod input;
mod key;
mod queue;
mod requests;

pub use cache::Cache;
pub use cache::CacheError;
pub use compiler::Answer;
pub use compiler::Compiler;
pub use compiler::Error;
pub use compiler::Source;
pub use compiler::spawn_thread;
pub use input::Content;
pub use input::Device;
pub use input::Input;
pub use key::CacheKey;
pub use key::Digest;
pub use key::Stamp;
pub use queue::MAX_PENDING;
