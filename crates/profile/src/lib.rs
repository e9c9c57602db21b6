//! The model of a profile, independent of its source and of its file format.
//!
//! In: address spaces as types, build-ids, mappings, functions, locations, labels, samples; a [`Builder`] that stores
//! equal items once; the [`Interner`] behind it; foreign text and numbers as they may be shown.
//! Guaranteed: pure, no I/O, no Linux; every id in a finished [`Profile`] names an item of the same profile.
//! Not here: file formats (crate `formats`), symbolization (crate `symbols`).
#![forbid(unsafe_code)]

mod address;
mod build_id;
mod builder;
mod grouped;
mod interner;
mod model;
mod visible;

pub use address::{Avma, FileOffset, Svma};
pub use build_id::{BuildId, BuildIdError};
pub use builder::Builder;
pub use grouped::grouped;
pub use interner::Interner;
pub use model::{
    Function, FunctionId, KERNEL_MAPPING, Label, LabelValue, Line, Location, LocationId, Mapping, MappingId,
    Moment, Profile, Sample, ValueType,
};
pub use visible::{is_hidden, push_escaped, visible};
