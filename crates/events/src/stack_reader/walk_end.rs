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
    /// No file is mapped at the address.
    NoMapping,
    /// No rule is known for the code, or one that needs more than registers and the copy.
    NoRule,
    /// It had as many frames as are kept.
    Limit,
}

/// What an error of a step means for the walk.
pub(super) fn end_of(error: StepError) -> WalkEnd {
    match error {
        StepError::Root => WalkEnd::Root,
        StepError::Fault(_) => WalkEnd::EndOfCopy,
        StepError::NotAbove(_) => WalkEnd::Broken,
        _ => WalkEnd::NoRule,
    }
}
