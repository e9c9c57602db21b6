//! How walks over copies of stacks end.

use unwind::StepError;

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WalkEnd {
    /// At the outermost function.
    Root,
    /// The sample has no registers of a 64-bit program.
    NoRegisters,
    /// The next word is not in the copy: it is deeper than what was copied, or on another stack.
    EndOfCopy,
    /// The frame pointer or the caller's stack pointer leads nowhere.
    Broken,
    /// The frame pointer or the return address is 0 where no thread or coroutine begins. Walks by frame pointers alone
    /// end here where they end well: they do not know what begins a stack.
    ZeroFrame,
    /// No file is mapped at the address.
    NoMapping,
    /// No rule is known for the code, or one that needs more than registers and the copy.
    NoRule,
    /// It had as many frames as are kept.
    Limit,
}

/// Why a frame has no caller.
pub(super) struct NoCaller {
    pub(super) end: WalkEnd,
    /// The frame itself is none: a return to it was prepared, and it was never called.
    pub(super) is_no_frame: bool,
}

impl From<WalkEnd> for NoCaller {
    fn from(end: WalkEnd) -> Self {
        Self { end, is_no_frame: false }
    }
}

impl From<StepError> for NoCaller {
    fn from(error: StepError) -> Self {
        let end = match error {
            StepError::Root | StepError::NotCalled => WalkEnd::Root,
            StepError::ZeroFrame => WalkEnd::ZeroFrame,
            StepError::Fault(_) => WalkEnd::EndOfCopy,
            StepError::NotAbove(_) => WalkEnd::Broken,
            _ => WalkEnd::NoRule,
        };
        Self { end, is_no_frame: error == StepError::NotCalled }
    }
}
