//! The in-kernel walker compiled natively: the C of `bpf/`, over recorded registers and stack bytes.
//!
//! The sampler's walker cannot be tested where it runs: it needs privileges, a kernel, and a target that stands still.
//! Here the same source runs as an ordinary function, so that ordinary tests hold it against other unwinders, and the
//! memo against the walk without it.
//!
//! Guarantees: no privileges, no BPF. Any tables, mappings, registers and stack bytes are allowed: a walk ends, with at
//! most [`MAX_FRAMES`] frames, and touches nothing but what it was given.
//!
//! Its registers are those of x86-64.
//!
//! Besides the walker: the walk of Python's frames, the hash of stacks, and how the values of occurrences are added up.
//!
//! Not its job: the aggregation of samples, kernel stacks, reading registers (BPF side), making tables (crate `unwind`).
//!
//! # Example
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use replay::{Code, Mapping, Registers, Replay, Stack, Thread};
//!
//! let mut replay = Replay::new();
//! let table = replay.add_table(&unwind::compile(&std::fs::read("/bin/true")?)?)?;
//! replay.set_mappings(&[Mapping { start: 0x40_0000, end: 0x48_0000, bias: 0, code: Code::Table(table) }])?;
//! let registers = Registers::of(0x40_1000, 0x7fff_0000, 0);
//! let walk = replay.walk(&Thread::default(), &registers, &Stack::new(0x7fff_0000, vec![0; 4096]));
//! println!("{} frames, {:?}", walk.frames.len(), walk.end);
//! # Ok(())
//! # }
//! ```

mod abi;
mod error;
mod native;
mod python;
mod return_probe;
mod stack;
mod table_pool;
mod tables;
mod unwalked;
mod walk;

pub use abi::CHUNK_WORDS;
pub use abi::MAX_FRAMES;
pub use error::Error;
pub use native::Claims;
pub use native::{add_values, first_values, sample_weight, stack_hash};
pub use python::{MAX_PYTHON_FRAMES, Python, PythonEnd, PythonFrame, SentCode};
pub use return_probe::ReturnProbe;
pub use stack::Stack;
pub use unwalked::{Unsent, send_stack};
pub use walk::Code;
pub use walk::Differs;
pub use walk::End;
pub use walk::Frame;
pub use walk::Mapping;
pub use walk::PythonWalk;
pub use walk::Registers;
pub use walk::Replay;
pub use walk::TableId;
pub use walk::Thread;
pub use walk::Walk;
