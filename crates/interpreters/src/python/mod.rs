//! CPython 3.8 to 3.15 on x86-64: where its frames are, what they mean, and where they belong in a native stack.
//!
//! In: [`Interpreter::of_file`] finds the interpreter in an ELF file, with its [`Version`], the [`Layout`] of its data and the code of
//! its [`Evaluator`], the function that runs Python code; [`slot`] finds where threads keep their state; [`chain`] reads the frames of a
//! thread that does not run; [`lines`] reads line tables;
//! [`merge`](mod@merge) puts the frames of both walks of a stack in order.
//! Not here: PyPy and other implementations, and interpreters before 3.13 that are built for debugging. They are told apart by
//! [`InterpreterError`].

pub mod chain;
mod debug_offsets;
mod evaluator;
mod interpreter;
mod layout;
pub mod lines;
pub mod merge;
mod opcodes;
pub mod slot;
mod symbols;
mod text;
mod thread_variable;
mod version;
mod version_text;

pub use debug_offsets::DebugOffsetsError;
pub use evaluator::Evaluator;
pub use interpreter::{Interpreter, InterpreterError, VersionSource};
pub use layout::Layout;
pub use merge::{Merged, Outcome, Position};
pub use slot::Slot;
pub use text::text;
pub use thread_variable::ThreadVariable;
pub use version::{Family, Stage, Version};
