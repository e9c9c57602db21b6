//! The library from outside: whole captures.

mod attacks;
mod children;
mod cut;
mod events;
mod executed;
mod filters;
mod jit_dump;
mod kernel_stacks;
mod library;
mod locks;
mod metrics;
mod perf_maps;
mod python;
mod short_lived;
mod silent_files;
mod silent_fs;
mod started;
mod symbol_source;
