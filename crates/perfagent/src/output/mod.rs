//! Outputs of a capture: their targets, the validation of targets before anything is attached, names, and files that appear
//! complete or not at all.
//!
//! Guaranteed: where an output goes is settled before the capture begins; what others do to its path later redirects nothing.
//! A regular file is replaced by rename, after the file system has accepted all its bytes. An automatic name
//! never replaces a file. No partial file remains when the process fails, is interrupted, or (on file systems with unnamed
//! files) is killed.
//!
//! Not here: the formats (registry of crate `formats`), and when outputs are written (the agent).

mod check;
mod destination;
mod directory;
mod drawing;
mod encode;
mod file;
mod in_place;
mod kind;
mod names;
mod place;
mod profiles;
mod publish;
mod report;
mod sink;
mod target;
mod temporary;
mod title;
mod warnings;
mod write;

pub(crate) use check::{access, check_all};
pub(crate) use destination::open_target;
pub use drawing::Drawing;
pub(crate) use encode::{Contents, encode_profile};
pub(crate) use in_place::InPlace;
pub use kind::OutputKind;
pub use names::{AutoName, Subject, auto_name};
pub(crate) use profiles::{Profiles, ledger, modes, profile, words};
pub use report::OutputReport;
pub use sink::{MemorySink, Sink};
pub use target::FileTarget;
pub(crate) use target::OutputTarget;
pub use temporary::TemporaryFiles;
pub(crate) use write::{IntervalOutputs, Outputs, write_bytes, write_profile, write_written};
