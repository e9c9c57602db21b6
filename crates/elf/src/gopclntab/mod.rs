//! `.gopclntab`: the functions of a Go program, as its own runtime describes them. Stripping leaves the table in place.
//!
//! For each function: addresses, name, stack size, files, lines and inlined calls. Layouts of Go 1.16 and later.
//!
//! Guaranteed: no panic, and bounded work for each call, whatever the bytes are.

mod find;
mod function;
mod header;
mod module;
mod values;

pub use find::find;
pub use function::{Function, InlinedCall};
pub use header::{PcLnTab, Version};
pub use module::{Module, modules};
pub use values::{Malformed, Step, Values};

#[cfg(test)]
mod tests;
