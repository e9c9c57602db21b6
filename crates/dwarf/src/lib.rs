//! Functions, inlined calls and source lines at addresses, from DWARF 2 to 5.
//!
//! In: sections as slices ([`DebugFile`]), those of supplementary files (`dwz`) and of split units ([`SplitSource`]); out: for each
//! address the functions, innermost first ([`Found`]), with linkage names, paths, lines and the lines of declarations. What was read stays in
//! the [`Reader`] as packed records of whole functions, so that another address in a known function costs nothing of the file; a later reader can go on
//! from them.
//! Guaranteed: pure; no panic, and memory and work bounded by named limits and by the size of the sections, whatever the bytes are. Damaged
//! units lose their own names. Each unit is read once for all addresses of a look-up.
//! Not here: files and how they are found, decompression, symbol tables, and readable names.
//!
//! The steps, one file each: headers of units (`units`), address ranges of their roots (`index`), functions of one unit (`functions`),
//! inlined calls of one function (`calls`), lines (`lines`, which runs `line_program`), entries (`names`), names
//! (`descriptions`, with what `scopes` finds around a function); `unit` joins them to records.
#![forbid(unsafe_code)]

mod abbreviations;
#[cfg(test)]
mod beside_gimli;
mod bytes;
mod calls;
mod code;
mod descriptions;
mod flatten;
mod forms;
mod functions;
#[cfg(test)]
mod hostile;
mod index;
mod limits;
mod line_program;
mod lines;
mod names;
mod reader;
mod records;
mod saved;
mod scopes;
mod sections;
mod split;
mod stats;
mod texts;
mod unit;
mod units;
mod view;

pub use reader::{DebugFile, Reader};
pub use records::{Found, Frame};
pub use saved::SharedBytes;
pub use sections::Sections;
pub use split::{NoSplitUnits, SplitSource, SplitUnit};
pub use stats::Stats;
pub use texts::TextId;
