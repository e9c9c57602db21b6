//! How walks of user stacks end.

use crate::abi::skeleton::types;

pub(crate) const WALK_ENDS: usize = types::walk_end::WALK_ENDS.0 as usize;

/// How the walk of a user stack ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WalkEnd {
    /// At the outermost frame.
    Root = types::walk_end::WALK_ROOT.0 as isize,
    /// At a pc outside all executable mappings.
    NoMapping = types::walk_end::WALK_NO_MAPPING.0 as isize,
    /// The file's tables do not cover the pc, and the frame pointer did not help.
    NoRow = types::walk_end::WALK_NO_ROW.0 as isize,
    /// At a rule that the walker cannot evaluate.
    UnsupportedRule = types::walk_end::WALK_UNSUPPORTED_RULE.0 as isize,
    /// At a frame pointer or CFA that is not above the last one.
    FpChain = types::walk_end::WALK_FP_CHAIN.0 as isize,
    /// At stack memory that is not readable.
    Fault = types::walk_end::WALK_FAULT.0 as isize,
    /// At the maximum number of frames.
    FrameLimit = types::walk_end::WALK_FRAME_LIMIT.0 as isize,
    /// At a file whose table is still being compiled.
    TableNotReady = types::walk_end::WALK_TABLE_NOT_READY.0 as isize,
    /// No user registers, or none of user code.
    NoRegisters = types::walk_end::WALK_NO_REGISTERS.0 as isize,
    /// A kernel thread, which has no user stack. Some belong to a process, for example those of io_uring.
    NoUserStack = types::walk_end::WALK_NONE.0 as isize,
    /// A thread that has already released its memory in exit or exec.
    Exiting = types::walk_end::WALK_EXITING.0 as isize,
    /// At a switch of stacks: the caller's stack could not be found or read.
    StackSwitch = types::walk_end::WALK_STACK_SWITCH.0 as isize,
    /// The thread runs 32-bit code, which is not walked.
    Code32Bit = types::walk_end::WALK_CODE_32_BIT.0 as isize,
    /// At a frame pointer or return address of 0 where no stack begins.
    ZeroFrame = types::walk_end::WALK_ZERO_FRAME.0 as isize,
}

impl WalkEnd {
    /// All of them.
    pub const ALL: [Self; WALK_ENDS] = [
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

    /// Whether there was no user stack to walk.
    #[must_use]
    pub fn is_no_walk(self) -> bool {
        matches!(self, Self::NoUserStack | Self::Exiting)
    }
}

impl TryFrom<u32> for WalkEnd {
    type Error = u32;

    fn try_from(number: u32) -> Result<Self, u32> {
        Self::ALL.into_iter().find(|end| *end as u32 == number).ok_or(number)
    }
}
