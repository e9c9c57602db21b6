//! The terminal view of a running capture.
//!
//! [`App`] takes [`Interval`]s, what each second of a capture brought, and [`Key`]s, and draws itself into a buffer. It keeps a
//! [`Window`] for each mode: the stacks of the last minute, second by second, and of all time since the start.
//!
//! Guaranteed: pure. What is drawn depends only on intervals, keys and the size of the screen. Memory is bounded, whatever the targets do:
//! where there are too many stacks, the lightest ones become one for each program. Text of the targets is drawn with hidden characters escaped.
//!
//! Not here: the terminal, the capture, signals, files (`cli`).
#![forbid(unsafe_code)]

mod app;
mod callers;
mod draw;
mod export;
mod figures;
mod frames;
mod functions;
mod interval;
mod keys;
mod owners;
mod prompt;
mod query;
mod range;
mod rows;
#[cfg(test)]
mod test_profile;
mod tree;
mod window;

pub use app::{App, Effect, Status};
pub use draw::{Theme, draw, length};
pub use figures::Figures;
pub use interval::{Interval, Mode, Part};
pub use keys::{Key, Keys};
pub use window::Window;
