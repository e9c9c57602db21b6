//! jitdump files: what V8 (`--perf-prof`), agents of the JVM, wasmtime and others write about the code that they make, as
//! perf's `jitdump-specification.txt` describes it: name, address and time of each piece of code, its lines, and its moves.
//!
//! Guaranteed: at most 1 GiB is read of a file, in pieces of at most 16 MiB; at most a million pieces of code, 4 million lines
//! and 64 MiB of names are kept; code itself is skipped. Records that make no sense end the reading, and are counted; what was
//! read before stays. An address is named by the code that was newest at a given time.
//! Not here: which file it is. The caller opens the file that the process maps.

mod code;
mod dump;
mod error;
mod history;
mod record;
mod window;

pub use code::{JitCode, JitCodeCounts};
pub use dump::JitDump;
pub use error::JitDumpError;
