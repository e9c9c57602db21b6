//! Where the threads of a process keep the state of the interpreter. The process is read, from `_PyRuntime` on, and not changed.
//!
//! All of it may change while it is read, or be made to mislead: lists are followed up to a limit, and what does not fit together is not
//! believed.

use interpreters::python::slot::{self, ThreadState};
use interpreters::python::{Interpreter, Layout, Slot};

/// Interpreters of a process that are looked at.
const MAX_INTERPRETERS: usize = 16;
/// Threads of a process that are looked at. Each confirms the place.
const MAX_THREADS: usize = 64;

/// What was found in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Where threads keep the state of the interpreter.
    pub(super) slot: Slot,
    /// Interpreters with threads.
    pub(super) interpreters: usize,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotYet {
    /// The interpreter is still being set up, or no thread of it runs.
    NoThreads,
    /// The place is not the same in all threads: lists changed while they were read, or a thread is still being set up.
    NoCommonPlace,
}

/// Finds the place in a process where the interpreter's file has this bias. `read` gives memory of the process, as far as it is readable.
pub(super) fn calibrate(
    interpreter: &Interpreter,
    bias: u64,
    read: impl Fn(u64, usize) -> Vec<u8>,
) -> Result<Found, NotYet> {
    let runtime = interpreter.runtime.0.wrapping_add(bias);
    let (states, interpreters) = thread_states(&interpreter.layout, runtime, MAX_THREADS, &read);
    if states.is_empty() {
        return Err(NotYet::NoThreads);
    }
    let slot = match &interpreter.thread_variable {
        Some(variable) => slot::of_variable(variable, bias, &states, read),
        None => slot::find(&states, read),
    };
    let slot = slot.ok_or(NotYet::NoCommonPlace)?;
    Ok(Found { slot, interpreters })
}

/// The states of at most `most` threads, and how many interpreters have some.
pub(super) fn thread_states(
    layout: &Layout,
    runtime: u64,
    most: usize,
    read: &impl Fn(u64, usize) -> Vec<u8>,
) -> (Vec<ThreadState>, usize) {
    let word = |address: u64, offset: u32| {
        let bytes = read(address.wrapping_add(offset.into()), 8);
        bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).filter(|value| *value != 0)
    };
    let (mut states, mut interpreters) = (Vec::new(), 0);
    let mut interpreter = word(runtime, layout.runtime_interpreters_head);
    for _ in 0..MAX_INTERPRETERS {
        let Some(address) = interpreter else { break };
        let mut state = word(address, layout.interp_threads_head);
        interpreters += usize::from(state.is_some());
        while let Some(address) = state.filter(|_| states.len() < most) {
            if let Some(thread_id) = word(address, layout.tstate_thread_id) {
                states.push(ThreadState { address, thread_id });
            }
            state = word(address, layout.tstate_next);
        }
        interpreter = word(address, layout.interp_next);
    }
    (states, interpreters)
}

#[cfg(test)]
mod tests;
