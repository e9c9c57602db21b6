//! The kernel's perf interface as types.
//!
//! [`EventAttr`] is `perf_event_attr` with all its fields: checked for contradictions, and encoded in the sizes that kernels know.
//! [`Record`] is a record of a ring, with every field of every type up to Linux 6.18, [`Sample`] the samples among them, [`SampleId`] what
//! follows the others. [`numbers`] has the kernel's numbers with their names.
//!
//! Records are not trusted: each access is checked against the record, nothing is allocated for a number in it, and a part that does not
//! fit is [`Malformed`]. Records are borrowed. This crate knows no system: opening events and reading rings belong to the callers.
//!
//! ```
//! use perf_abi::{EventAttr, Layout, Record, RecordBody};
//! let attr = EventAttr { sample_type: perf_abi::numbers::sample::TIME, sample_id_all: true, ..EventAttr::default() };
//! let layout = Layout::of(&attr);
//! // LOST: 3 records of event 7, at 99 ns.
//! let mut bytes = vec![2, 0, 0, 0, 0, 0, 32, 0];
//! for number in [7u64, 3, 99] {
//!     bytes.extend(number.to_ne_bytes());
//! }
//! let record = Record::parse(&bytes, &layout)?;
//! assert_eq!(record.id.time, Some(99));
//! assert!(matches!(record.body, RecordBody::Lost { id: 7, lost: 3 }));
//! # Ok::<(), perf_abi::Malformed>(())
//! ```
#![forbid(unsafe_code)]

mod attr;
mod bytes;
mod counters;
mod encoding;
mod layout;
pub mod numbers;
mod record;
mod sample;

pub use attr::{EventAttr, InvalidAttr};
pub use bytes::{Malformed, Words};
pub use counters::{CounterGroup, CounterValue};
pub use encoding::{KNOWN_SIZES, SIZE, UnsupportedAttr, decode, encode, shorten};
pub use layout::{Layout, SampleId};
pub use record::{FileIdentity, Header, MappedFile, Record, RecordBody, Task};
pub use sample::{Branch, Registers, Sample, UserStack};
