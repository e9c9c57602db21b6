//! Compact unwind tables: the bytes of an ELF file in, a [`Table`] of 4-byte rows out.
//!
//! [`compile`] uses, for each address, the first of these sources that covers it: `.eh_frame` (found by section header,
//! or by program header in files without section headers), the stack-size table of Go's `.gopclntab`, `.debug_frame`
//! (also compressed), and the code itself, if it is simple enough for exact rules. The table has the layout of [`abi`],
//! which the in-kernel walker reads without conversion. [`step`] is that walker in Rust. [`full`] steps with all
//! registers and any rule, directly from the frame sections. [`FunctionIndex`] tells where the function begins that an
//! address belongs to, in a file without symbols. [`ExitIndex`] finds all places at which a function returns.
//!
//! Files of x86-64 and aarch64 are supported on any machine. For aarch64, neither Go's table is read nor code that
//! needs a frame.
//!
//! There is no I/O and no `unsafe`. No input causes a panic, and time and memory are bounded for any input. A malformed
//! description of a function affects only that function. A rule that the walker does not support becomes
//! [`Rule::UNSUPPORTED`], never an approximation. [`Stats`] counts both.
//!
//! This crate does not read or cache files (crate `tables`), does not map run-time addresses to link-time addresses,
//! and knows no names.
//!
//! # Example
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let elf = std::fs::read("/usr/lib/x86_64-linux-gnu/libc.so.6")?;
//! let table = unwind::compile(&elf)?;
//! println!("{} rows, {:?}", table.rows.len(), table.stats);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod aarch64;
pub mod abi;
mod cfi;
mod codewalk;
mod encoding;
mod entry;
mod epilogue;
mod error;
mod exits;
mod expression;
mod frames;
pub mod full;
mod functions;
mod go;
mod image;
mod instructions;
mod layer;
mod machine;
mod pages;
mod reader;
mod start_frames;
mod stub_sections;
mod stubs;
mod table;
mod translate;
mod walker;
mod x86_64;

use machine::Machine;

pub use abi::PageSpan;
pub use abi::Row;
pub use abi::Rule;
pub use encoding::FORMAT_VERSION;
pub use encoding::decode;
pub use encoding::encode;
pub use error::Error;
pub use exits::Callee;
pub use exits::ExitIndex;
pub use exits::Exits;
pub use exits::JumpsOut;
pub use exits::Question;
pub use exits::Symbols;
pub use exits::Unfollowed;
pub use functions::FunctionIndex;
pub use table::Stats;
pub use table::Table;
pub use walker::Memory;
pub use walker::Registers;
pub use walker::StepError;
pub use walker::apply;
pub use walker::step;

/// Compiles the unwind table of an ELF file: executable, shared object or vdso.
///
/// A file without any unwind information gives an empty table.
///
/// # Errors
/// The bytes are not an ELF file, are of an unsupported architecture, or have no executable segment.
pub fn compile(elf: &[u8]) -> Result<Table, Error> {
    compile_releasing(elf, &|| {})
}

/// As [`compile`], for a mapped file: after every few MiB of reads, `release` is called, which may release the memory
/// of the pages.
///
/// # Errors
/// As [`compile`].
pub fn compile_releasing(elf: &[u8], release: &dyn Fn()) -> Result<Table, Error> {
    let image = image::Image::parse(elf)?.releasing(release);
    let mut stats = Stats::default();
    let mut rules = layer::RuleSet::new();
    let mut merged = known(&image, &mut rules, &mut stats);
    if image.machine == Machine::Aarch64 {
        let known = aarch64::code::layer(&image, &merged, &mut rules);
        merged.fill_from(known);
        return Ok(pages::build(&merged, rules, stats));
    }
    merged.fill_from(codewalk::layer(&image, &merged, &mut rules, &mut stats));
    stats.bad_fdes = stats.bad_fdes.saturating_add(merged.refused);
    Ok(pages::build(&merged, rules, stats))
}

/// The rows of all sources before the analysis of code.
fn known(image: &image::Image<'_>, rules: &mut layer::RuleSet, stats: &mut Stats) -> layer::Layer {
    let mut merged = frames::eh_frame(image, rules, stats);
    if image.machine == Machine::Aarch64 {
        merged.fill_from(frames::debug_frame(image, rules, stats));
        return merged;
    }
    start_frames::mark_entries(image, &mut merged, rules);
    merged.fill_from(go::layer(image, rules, stats));
    merged.fill_from(frames::debug_frame(image, rules, stats));
    let entry = entry::layer(image, &merged, rules);
    merged.fill_from(entry);
    let stubs = stubs::layer(image, &merged, rules);
    merged.fill_from(stubs);
    merged
}
