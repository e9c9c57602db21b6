//! Switches the perf trampoline of running CPython processes (3.12 and later) on and off, as `sys.activate_stack_trampoline("perf")` and
//! `sys.deactivate_stack_trampoline()` do.
//!
//! In: finding the interpreter of a process and the functions that are needed, a place where its thread may call them, the calls, and the
//! [`Mark`] that says who has switched it on. Guaranteed: no code of Python runs for it, so no handler, hook or import of the program does;
//! only functions of the interpreter's API are called, under its lock, and nothing is left to be executed later but a call of
//! `sched_yield`. What was on before stays on.
//! Not here: which processes, when, and what the user is told (crate `perfagent`); how calls are made (crate `remote_call`).
//!
//! # Where a thread may call
//! Only threads of the main interpreter are used, since trampolines are switched for each interpreter of a process, and this is the one that
//! runs the program. Either such a thread waits in a system call and has given the lock away, with a whole stack, outside of the
//! dynamic loader and of signal handlers, and not for the lock itself. Or the interpreter's first thread runs its loop: then the interpreter is asked to call `sched_yield`
//! between two instructions (`Py_AddPendingCall`), and the calls are made at the end of that system call, which is known by its argument.
//!
//! Only for x86-64; elsewhere the crate is empty.
#![forbid(unsafe_code)]
#![cfg(target_arch = "x86_64")]

mod api;
mod injection;
mod mark;
mod obstacle;
mod place;
mod refusal;
mod switch;
mod target;

pub use injection::{Counts, Injection};
pub use mark::Mark;
pub use refusal::{Refusal, Token};
pub use switch::{Off, On, switch_off, switch_on};

#[cfg(test)]
mod tests;
