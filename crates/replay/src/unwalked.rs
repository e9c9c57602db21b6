//! Stacks that are sent unwalked: `bpf/allowance.h`.

use crate::native;
use crate::walk::End;

/// Why an unwalked stack is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// Its process has sent its share.
    OfProcess,
    /// All processes together have.
    OfMachine,
}

/// Sends an unwalked stack of a process whose walk ended as `end`, unless the allowances refuse it. They belong to the
/// calling thread, and are unused at first.
///
/// # Errors
/// Why it is not sent.
pub fn send_stack(pid: u32, end: End, sampled: bool, now_ns: u64, bytes: u64) -> Result<(), Unsent> {
    match native::send_stack(pid, end as u32, sampled, now_ns, bytes) {
        0 => Ok(()),
        1 => Err(Unsent::OfProcess),
        _ => Err(Unsent::OfMachine),
    }
}
