//! Writes perf.data, the file format of the kernel's profiler `perf`, as a stream.
//!
//! [`Writer`] writes a file that is complete after each round: one that is left in the middle reads up to the last complete round. Nothing
//! is kept of a record that was written. The crate knows no system: who writes decides what happened, and when.
//!
//! Not its job: the order of records in time, and reading such files.
#![forbid(unsafe_code)]

mod attr;
mod bytes;
mod error;
mod features;
mod header;
mod record;
mod writer;

pub use attr::{Attr, Event, Rate};
pub use error::Error;
pub use features::{Features, FileBuildId};
pub use record::{FileIdentity, Process, Record, Sample, Stamp};
pub use writer::Writer;
