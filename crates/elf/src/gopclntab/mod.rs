//! `.gopclntab`: the functions of a Go program, as its own runtime describes them. Stripping leaves the table in place.
//!
//! For each function: addresses, name, stack size, files, lines and inlined calls. Layouts of Go 1.16 and later.
//!
//! Guaranteed: no panic, and bounded work for each call, whatever the bytes are.

mod find;
mod function;
mod module;
mod table;
mod values;
mod version;

pub use find::find;
pub use function::{Function, InlinedCall};
pub use module::{Module, modules};
pub use table::PcLnTab;
pub use values::{Malformed, Step, Values};
pub use version::Version;

#[cfg(test)]
mod tests;
