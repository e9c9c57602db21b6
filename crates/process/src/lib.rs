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
//! for region in image.regions() {
//!     println!("{:x}-{:x} {:?}", region.start, region.end, region.kind);
//! }
//! # Ok::<(), process::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod cgroup;
mod elf;
mod error;
mod file;
mod files;
mod image;
mod labels;
mod maps;
mod open;
mod reader;
pub mod task;
mod trampolines;
mod vdso;

pub use elf::Segment;
pub use error::Error;
pub use file::{Bytes, Content, ContentStamp, FileIdentity, FileKey, FileKind, MappedFile, OpenFile};
pub use files::{Files, OpenCounts};
pub use image::{Image, NewMapping, Region, RegionKind};
pub use labels::Labels;
pub use open::OpenFailure;
pub use reader::read_image;
