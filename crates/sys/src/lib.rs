//! Raw system calls behind safe functions.
//!
//! Perf events and their rings ([`perf`], [`ring`], [`overwrite_ring`]), programs at them ([`bpf_link`]), read-only file mappings that survive truncation ([`filemap`]),
//! threads without signals ([`thread`]), the kernel's clock ([`clock`]), capabilities ([`caps`]) and what else confines a process ([`confinement`]), resource usage of this process ([`usage`]), children
//! that wait before they exec ([`gate`]), the end of children that are traced ([`child`]), the memory of other processes ([`memory`]), files that were examined before they are
//! read ([`reopen`]), and stopping threads of other processes (`ptrace`, x86-64 only).
//!
//! Every public function is safe to call with any argument. Descriptors are owned types. No allocation has a size that
//! comes from the kernel or from a file. The callers decide what to open, when to fall back and what to tell the user.

pub mod bpf_link;
pub mod caps;
pub mod child;
pub mod clock;
pub mod confinement;
pub mod filemap;
pub mod gate;
pub mod memory;
pub mod overwrite_ring;
pub mod perf;
#[cfg(target_arch = "x86_64")]
pub mod ptrace;
pub mod reopen;
pub mod ring;
pub mod thread;
pub mod usage;
