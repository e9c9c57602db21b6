//! Names for addresses: functions, source lines and inlined calls of native code, the kernel and JIT code.
//!
//! In: [`Symbolizer`] for mapped files (DWARF in the file or a separate debug file, `.symtab`, `.gnu_debugdata`, `.dynsym`, PLT
//! stubs, Go's own tables), for code without symbols the starts of its functions, and for the kernel; [`PerfMap`] and [`JitDump`] for JIT code;
//! [`demangle`]; [`RecordStore`], which keeps what was learned of files for later runs.
//! Guaranteed: a hostile file can spoil its own names only. No panic leaves this crate, and memory and work are bounded. If
//! a hostile file names another file, that is opened only if it is a regular file inside of the target's root or of our own
//! debug directories. Missing names are counted in [`Stats`].
//! Not here: the file that an address belongs to (crate `process`), ELF files and Go's table as such (crate `elf`), fetching
//! debug information, and the adjustment of return addresses: callers pass the address of the call instruction.
//!
//! ```
//! use profile::Svma;
//! use symbols::{ObjectFile, ObjectSource, Options, Symbolizer};
//!
//! let mut symbolizer = Symbolizer::new(Options::default());
//! let file = ObjectFile {
//!     source: ObjectSource::Path("/proc/self/exe".into()),
//!     display_path: "/usr/bin/example".into(),
//!     root: None,
//!     build_id: None,
//! };
//! let names = symbolizer.object(&file, &[Svma(0)]);
//! assert!(names[0].is_empty());
//! ```
#![forbid(unsafe_code)]

mod debug_file;
mod debug_info;
mod debug_names;
mod debug_sections;
mod demangle;
mod dlang;
mod elf_file;
mod function_starts;
mod go;
mod hash;
mod identity;
mod jit_dump;
mod jit_name;
mod kernel;
mod kernel_image;
mod kernel_text;
mod kernel_variables;
mod mini;
mod object;
mod object_cache;
mod object_file;
mod object_symbols;
mod options;
mod packed_texts;
mod perf_map;
mod plt;
mod record_store;
mod saved_answers;
mod saved_names;
mod separate;
mod separate_file;
mod shared_text;
mod source_line;
mod split_files;
mod split_log;
mod stamp;
mod stats;
mod symbol_records;
mod symbol_tables;
mod symbolizer;
mod symtab;
mod variables;
mod xz;

pub use demangle::demangle;
pub use jit_dump::{JitCode, JitCodeCounts, JitDump, JitDumpError};
pub use kernel::KernelNames;
pub use kernel_image::KernelFile;
pub use kernel_text::KernelText;
pub use object_file::{ObjectFile, ObjectSource};
pub use options::Options;
pub use perf_map::{
    CodeRanges, PerfMap, PerfMapEntry, PerfMapError, PerfMapOwner, perf_map_shortfall, spent_perf_map,
};
pub use record_store::{RecordStore, RecordStoreError};
pub use saved_answers::saved_answers;
pub use saved_names::SavedNames;
pub use separate_file::separate_debug_file;
pub use shared_text::SharedText;
pub use source_line::SourceLine;
pub use stats::Stats;
pub use symbolizer::Symbolizer;
