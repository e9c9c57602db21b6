//! Raw system calls behind safe functions.
//!
//! In: perf events and their rings ([`perf`], [`ring`]), read-only file mappings that survive truncation
//! ([`filemap`]), threads without signals ([`thread`]), capabilities ([`caps`]), what this process itself uses
//! ([`usage`]), children that wait before they exec ([`gate`]), the
//! memory of other processes ([`memory`]).
//! Guaranteed: every public function is safe to call with any argument; descriptors are owned types; nothing
//! allocates by a number that the kernel or a file supplied.
//! Not here: policy. What to open, when to fall back and how to tell the user is decided by the callers.

pub mod caps;
pub mod filemap;
pub mod gate;
pub mod memory;
pub mod perf;
pub mod ring;
pub mod thread;
pub mod usage;
