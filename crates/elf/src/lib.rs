//! ELF files, read without trust: headers, segments, sections, notes, and the function table of Go programs.
//!
//! In: [`Layout`], the positions of segments and sections in a 64-bit file, with decompression of sections; [`Headers`],
//! the few facts that are needed of every mapped file, through a function that reads; [`gnu_build_id`]; [`alternate_link`]; [`gopclntab`].
//! Guaranteed: pure, no I/O, no Linux; no panic, and memory and work bounded by the size of the input or by named
//! limits, whatever the bytes are. Little-endian files only, which all files of the supported machines are.
//! Not here: symbol tables and DWARF (crate `symbols`), unwind information (crate `unwind`).
//!
//! ```
//! let file = std::fs::read("/proc/self/exe")?;
//! let layout = elf::Layout::parse(&file).expect("an ELF file");
//! let text = layout.section(b".text").expect("a section with code");
//! assert!(text.is_code() && text.bytes(&file).is_some());
//! assert!(layout.bytes_at(&file, layout.entry).is_some());
//! # Ok::<(), std::io::Error>(())
//! ```
#![forbid(unsafe_code)]

mod alternate_link;
pub mod gopclntab;
mod header;
mod headers;
mod layout;
mod note;
mod section;

/// The constants of the format.
pub use object::elf as constants;

pub use alternate_link::alternate_link;
pub use header::ProgramHeader;
pub use headers::{Headers, Segment};
pub use layout::Layout;
pub use note::gnu_build_id;
pub use section::Section;
