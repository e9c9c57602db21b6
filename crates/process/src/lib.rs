//! Processes: their executable memory, the files behind it, and their containers.
//!
//! In: the mappings of a process ([`read_mappings`], [`read_image`] and [`Image`]); mapped files, which stay readable after they
//! were deleted or their process ended ([`Files`], [`MappedFile`]), opened by workers ([`Opener`]); the facts of a task ([`task`]); container labels ([`Labels`],
//! [`cgroup`]).
//! Guaranteed: everything under `/proc` and every ELF header may be hostile: no panic, bounded memory, and only regular
//! files are opened. A part that cannot be read becomes an answer or a count; the rest is read all the same.
//! Not here: receiving events ([`Image::apply_mmap`] takes a mapping that the kernel reported), unwind tables, symbols.
//!
//! ```no_run
//! let files = process::Files::new();
//! let image = process::read_image(std::process::id(), &files)?;
//! for region in image.regions().iter() {
//!     println!("{:x}-{:x} {:?}", region.start, region.end, region.kind());
//! }
//! # Ok::<(), process::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod cgroup;
mod cgroup_dir;
mod chunked;
mod closer;
mod container_roots;
mod error;
mod file;
mod files;
mod identity;
mod image;
mod labels;
mod local_fs;
pub mod maps;
mod memory_reader;
mod open;
mod open_failure;
mod open_request;
mod opener;
mod pool;
mod reader;
mod region;
mod regions;
mod resolve;
pub mod task;
mod text_copy;
mod trampolines;
mod vdso;

pub use cgroup_dir::{CgroupDir, CgroupError, find as find_cgroup};
pub use container_roots::ContainerRoot;
pub use elf::Segment;
pub use error::Error;
pub use file::{Bytes, Content, ContentStamp, FileKey, FileKind, MappedFile, OpenFile};
pub use files::{Files, OpenCounts};
pub use identity::FileIdentity;
pub use image::Image;
pub use labels::{Labels, OwnPod};
pub use open_failure::OpenFailure;
pub use open_request::OpenRequest;
pub use opener::{Opened, Opener};
pub use pool::{Device, Spawn, Taken, WorkerPool};
pub use reader::{read_image, read_mappings};
pub use region::{OpeningFile, Region, RegionKind};
pub use regions::Regions;
pub use resolve::NewMapping;
