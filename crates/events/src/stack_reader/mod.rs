//! Samples of a thread or CPU with its registers and a copy of its stack, and walks over them.
//!
//! A [`StackReader`] opens the CPU clock with a ring of its own and gives [`StackSample`]s: what a walker needs after the thread has gone on.
//! [`Walk::by_frame_pointers`] walks without any further knowledge; [`Walk::by_unwind_rules`] with the frame information of the
//! files that [`ProcessCode`] finds behind a process, and with all registers.
//!
//! The kernel copies at most [`MAX_STACK_BYTES`] of each stack: a walk that leaves the copy says so. Samples that find no room in the ring are
//! told as [`StackItem::Lost`]. Names, aggregation and stacks of any depth are not in here: the profiler walks in the kernel.
//!
//! ```no_run
//! use events::stack_reader::{ProcessCode, StackConfig, StackItem, StackReader, Walk};
//! let mut reader = StackReader::open(&StackConfig::of_thread(4711))?;
//! let code = ProcessCode::of(4711)?;
//! for item in reader.events() {
//!     if let StackItem::Sample(sample) = item {
//!         let walk = Walk::by_unwind_rules(&sample, &code);
//!         println!("{:x?} {:?}", walk.addresses, walk.end);
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod code;
mod config;
mod reader;
pub mod registers;
mod sample;
mod walk;
mod walk_end;

pub use code::{CodeError, CodePlace, ProcessCode};
pub use config::{MAX_STACK_BYTES, StackConfig, StackReaderError};
pub use reader::{StackCloser, StackEvents, StackItem, StackReader};
pub use sample::StackSample;
pub use walk::Walk;
pub use walk_end::WalkEnd;
