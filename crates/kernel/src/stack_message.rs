//! A stack as the programs send it, walked or not.

use crate::attached::Attached;
use crate::frame::Frame;
use crate::sum_key::{Event, State};
use crate::walk_end::WalkEnd;

/// A new stack; its sums come under `hash`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackMessage {
    /// Key of the sums.
    pub hash: u64,
    /// Process, in the agent's PID namespace.
    pub pid: u32,
    /// Thread, in the agent's PID namespace.
    pub tid: u32,
    /// See `KernelProcess::exec_id`.
    pub exec_id: u64,
    /// How the walk of the user stack ended.
    pub end: WalkEnd,
    /// The event that is counted.
    pub event: Event,
    /// The state of the thread in which the stack was taken.
    pub state: State,
    /// Name of the thread.
    pub thread: String,
    /// When the stack was taken (CLOCK_MONOTONIC).
    pub time_ns: u64,
    /// Kernel addresses, leaf first.
    pub kernel: Vec<u64>,
    /// User frames, leaf first.
    pub user: Vec<Frame>,
    /// What else the message tells of the stack.
    pub attached: Box<Attached>,
}
