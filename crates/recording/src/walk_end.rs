//! How the walk of a user stack ended.

use serde::{Deserialize, Serialize};

/// How the walk of a user stack ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum WalkEnd {
    /// At the outermost frame.
    Root,
    /// At an address in no executable mapping.
    NoMapping,
    /// The file has unwind tables, none covers the address, and the frame pointer did not help.
    NoRow,
    /// At a rule that the walker does not evaluate.
    UnsupportedRule,
    /// At a frame pointer or CFA that is not above the last one.
    FpChain,
    /// Stack memory could not be read.
    Fault,
    /// The stack has more frames than are kept.
    FrameLimit,
    /// The unwind table was still being made.
    TableNotReady,
    /// There were no user registers.
    NoRegisters,
    /// Not a walk: a kernel thread has no user stack, nor has a kernel worker inside a process, as for io_uring.
    NoUserStack,
    /// Not a walk: the thread has released its memory, in exit or exec.
    Exiting,
    /// At a switch of stacks: the caller's stack could not be found or read.
    StackSwitch,
    /// The thread runs 32-bit code, which is not walked.
    Code32Bit,
    /// At a frame pointer or return address of 0 where no thread, coroutine or scheduler begins.
    ZeroFrame,
}

impl WalkEnd {
    /// All ends, in the order of their numbers.
    pub const ALL: [Self; 14] = [
        Self::Root,
        Self::NoMapping,
        Self::NoRow,
        Self::UnsupportedRule,
        Self::FpChain,
        Self::Fault,
        Self::FrameLimit,
        Self::TableNotReady,
        Self::NoRegisters,
        Self::NoUserStack,
        Self::Exiting,
        Self::StackSwitch,
        Self::Code32Bit,
        Self::ZeroFrame,
    ];

    /// The ends of real walks with the names that the ledger gives them, in the ledger's order.
    pub const WALKS: [(&'static str, Self); 12] = [
        ("root", Self::Root),
        ("no_mapping", Self::NoMapping),
        ("no_row", Self::NoRow),
        ("unsupported_rule", Self::UnsupportedRule),
        ("fp_chain", Self::FpChain),
        ("fault", Self::Fault),
        ("frame_limit", Self::FrameLimit),
        ("table_not_ready", Self::TableNotReady),
        ("no_registers", Self::NoRegisters),
        ("stack_switch", Self::StackSwitch),
        ("code_32_bit", Self::Code32Bit),
        ("zero_frame", Self::ZeroFrame),
    ];

    /// Whether there was no user stack to walk.
    #[must_use]
    pub fn is_no_walk(self) -> bool {
        matches!(self, Self::NoUserStack | Self::Exiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_positions_and_every_real_walk_has_a_name() {
        for (number, end) in WalkEnd::ALL.into_iter().enumerate() {
            assert_eq!(end as usize, number);
            assert_eq!(WalkEnd::WALKS.iter().any(|(_, walk)| *walk == end), !end.is_no_walk());
        }
    }
}
