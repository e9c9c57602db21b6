//! Places of probes in programs that a compiler and a linker made. The programs are in the assembly of x86-64.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used)]

mod exits;
mod files;
mod go;
mod hostile;
mod programs;
