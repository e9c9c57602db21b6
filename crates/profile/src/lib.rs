//! The profile model: what a capture is, independent of where it came from and where it is written.
//!
//! In: address spaces as types, build-ids, mappings, functions, locations, labels, samples, and an interning
//! [`Builder`]. Guaranteed: pure, no I/O, no Linux; a finished [`Profile`] is closed under its own ids.
//! Not here: file formats (crate `formats`), symbolization (crate `symbols`).
#![forbid(unsafe_code)]

mod address;
mod build_id;
mod builder;
mod model;

pub use address::{Avma, FileOffset, Svma};
pub use build_id::{BuildId, BuildIdError};
pub use builder::Builder;
pub use model::{
    Function, FunctionId, Label, LabelValue, Line, Location, LocationId, Mapping, MappingId, Profile, Sample,
    ValueType,
};
