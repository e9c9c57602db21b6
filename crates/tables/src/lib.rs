//! Where unwind tables come from: a disk cache, and threads that compile what it does not hold.
//!
//! [`Cache`] keeps compiled tables in `$XDG_CACHE_HOME/perf-agent/unwind`, by device, inode, size and times of the file,
//! and of files up to 8 MiB also by content, so that copies share one; losing it costs time only. [`Compiler`] runs
//! requests by priority on a few threads and sends each table, or why there is none, over a
//! channel.
//!
//! Guarantees: a file in the cache is believed only if its checksum, format version, key and every invariant of
//! the table hold; no file gets the table of another by what it says of itself (its build-id); a directory or file that others could have written is not used. Each request that was accepted is
//! answered exactly once while the receiver lives. Memory is bounded: requests, answers under way and file sizes have
//! limits.
//!
//! Not its job: finding files (crate `process`), the format of tables (crate `unwind`).
#![forbid(unsafe_code)]

mod cache;
mod compiler;
mod digest;
mod key;
mod queue;

pub use cache::Cache;
pub use cache::CacheError;
pub use compiler::Answer;
pub use compiler::Compiler;
pub use compiler::Content;
pub use compiler::Error;
pub use compiler::Input;
pub use compiler::Source;
pub use compiler::spawn_thread;
pub use key::CacheKey;
pub use key::Digest;
pub use key::Stamp;
pub use queue::MAX_PENDING;
