//! Who runs what: processes, their executable memory, the files behind it, and the containers they live in.
//!
//! In: `/proc/PID/maps` and what belongs to it ([`read_image`] and [`Image`]), mapped files that stay readable
//! after they were deleted or their process ended ([`Files`], [`MappedFile`]), the facts of a task ([`task`]),
//! container labels ([`Labels`], [`cgroup`]).
//! Guaranteed: everything under `/proc` and every ELF header is taken as hostile: no panic, bounded memory, no
//! opening of anything but regular files. What cannot be read is an answer or a count, not a failure of the whole.
//! Not here: events ([`Image::apply_mmap`] takes what the kernel reported), unwind tables, symbols.
//!
//! ```no_run
//! let files = process::Files::new();
//! let image = process::read_image(std::process::id(), &files)?;
//! for region in image.regions().iter() {
//!     println!("{:x}-{:x} {:?}", region.start, region.end, region.kind);
//! }
//! # Ok::<(), process::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod cgroup;
mod chunked;
mod error;
mod file;
mod files;
mod identity;
mod image;
mod labels;
mod maps;
mod open;
mod open_failure;
mod reader;
mod region;
mod regions;
mod resolve;
pub mod task;
mod trampolines;
mod vdso;

pub use elf::Segment;
pub use error::Error;
pub use file::{Bytes, Content, ContentStamp, FileKey, FileKind, MappedFile, OpenFile};
pub use files::{Files, OpenCounts};
pub use identity::FileIdentity;
pub use image::Image;
pub use labels::Labels;
pub use open_failure::OpenFailure;
pub use reader::read_image;
pub use region::{Region, RegionKind};
pub use regions::Regions;
pub use resolve::NewMapping;
