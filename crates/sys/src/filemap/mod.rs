//! Read-only mappings of files that other users own.
//!
//! The owner of a mapped file can truncate it at any time. A read behind the new end then raises `SIGBUS`, which would
//! kill this process. Copying every file would instead read gigabytes of debug information for a few needed pages. The
//! first mapping therefore installs a handler for `SIGBUS` that maps zeros in place of the missing page and of all that
//! follows it in the mapping, and continues. Readers see zeros; every parser of untrusted files must handle them anyway.
//!
//! The handler serves each [`FileMap`], and the read-only file mappings that libraries make, because the symbolizer makes
//! its own. Any other `SIGBUS` goes to the previous handler. Contents can also change while they are read: check each
//! value where it is used, and check [`is_whole`] before a result is stored.

mod file_map;
mod maps_file;
mod ranges;
mod sigbus;

pub use file_map::{FileMap, is_whole};
pub use sigbus::guard_against_truncation;
