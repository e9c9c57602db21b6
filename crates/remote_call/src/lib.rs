//! Calls of functions in other processes, which then go on as if nothing had happened.
//!
//! In: the code of a running process with its symbols and its stacks ([`Code`]); what its threads wait for ([`waits`]); one stopped thread
//! ([`Stopped`]); and calls in it ([`Calls`]). Nothing here knows what the functions are for.
//!
//! # What a call does to the target
//! One thread is stopped, without a signal. A block of bytes is written below its stack pointer and below the red zone; registers are
//! written; the thread runs the function until it returns. At the end the bytes, the registers with all vector state, the signal mask and
//! `errno` are what they were, and a system call that was interrupted is continued by the kernel. While a function runs, all signals but
//! those of faults are blocked in the thread, so they are delivered after it. Signals before that are delivered at once.
//!
//! # If this process dies
//! The kernel lets the thread go on wherever it is. So a function does not return to an address that traps, but to code of the target that
//! stores its result and then executes `rt_sigreturn` on a frame in the block: the kernel itself restores registers, vector state and signal
//! mask, as at the end of a signal handler. A second frame before that one can call another function first ([`Calls::set_way_out`]), which
//! gives back what the thread must not keep, such as a lock. A system call that was interrupted is then made again, or ends with `EINTR` if
//! it cannot be; `errno` is not put back; and a signal that came meanwhile is delivered before that call, which it does not end. In ordinary life the begin of that system call is where the thread is stopped, and
//! it is not executed.
//!
//! A function whose own wait is interrupted makes the kernel forget how the thread's wait goes on, so that ends with `EINTR` then.
//!
//! A call that does not return in time is left to end that way too: a function is never abandoned in its middle.
//!
//! Only for x86-64; elsewhere the crate is empty.
#![forbid(unsafe_code)]
#![cfg(target_arch = "x86_64")]

mod block;
mod calls;
mod code;
mod error;
mod gadgets;
mod stopped;
mod symbols;
pub mod waits;

pub use calls::Calls;
pub use code::{Code, CodeFile, Walked};
pub use error::CallError;
pub use stopped::Stopped;

#[cfg(test)]
mod tests;
