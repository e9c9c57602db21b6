//! The question and its answers.

use std::ops::Range;

use crate::Error;

/// Limit of instructions that are followed for one function.
pub(super) const MAX_INSTRUCTIONS: usize = 1 << 16;

/// What the caller knows of a file.
pub trait Symbols {
    /// The extent of the function around an address, by its symbol.
    fn extent(&self, address: u64) -> Option<Range<u64>>;
    /// Whether the symbol at an address names a part of a function, as `f.cold`.
    fn is_part(&self, address: u64) -> bool;
    /// The function whose address the loader writes to this place.
    fn import(&self, slot: u64) -> Option<&str>;
}

/// A function that is called or jumped to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee<'c> {
    /// At this address of the file.
    At(u64),
    /// Of another file, by its name.
    Import(&'c str),
}

/// What to do with jumps that leave a function for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JumpsOut {
    /// Follow them: the other function returns to the caller of this one.
    Follow,
    /// They are exits: the function's own code ends there.
    Exit,
}

/// What to find out.
pub struct Question<'q> {
    /// The first instruction of the function.
    pub entry: u64,
    /// What is known of the file.
    pub symbols: &'q dyn Symbols,
    /// Jumps to other functions.
    pub jumps_out: JumpsOut,
    /// Paths end at calls of these functions, and at jumps to them, without an exit.
    pub ends_at: &'q dyn Fn(Callee<'_>) -> bool,
    /// Follow the landing pads of exceptions too.
    pub landing_pads: bool,
}

/// The exits of a function, each in the order of addresses. Without any it never returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exits {
    /// The instructions that return.
    pub returns: Vec<u64>,
    /// The unconditional jumps to other functions, with [`JumpsOut::Exit`].
    pub jumps: Vec<u64>,
    /// Those of them that lead to a function whose address is a member of an object.
    pub(super) members: Vec<u64>,
}

/// Why the exits of a function are not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfollowed {
    /// The file is none whose code is followed.
    #[error("only code of x86-64 is followed")]
    Machine,
    /// The file is not readable.
    #[error(transparent)]
    File(#[from] Error),
    /// A jump by a register or by memory, and no table of a `switch`.
    #[error("the jump at {at:#x} may lead anywhere")]
    IndirectJump {
        /// The jump.
        at: u64,
    },
    /// The bytes are no instruction, or none that is followed.
    #[error("at {at:#x} is no instruction that can be followed")]
    Instruction {
        /// Its address.
        at: u64,
    },
    /// Neither a description nor a symbol covers the code.
    #[error("no symbol and no unwind information tells where the code at {at:#x} ends")]
    Extent {
        /// The address.
        at: u64,
    },
    /// A jump leads into another file.
    #[error("the jump at {at:#x} leads to {to} of another file")]
    Import {
        /// The jump.
        at: u64,
        /// The function.
        to: String,
    },
    /// The function continues in another one, by a way that cannot be probed.
    #[error(
        "the code at {at:#x} leads into the function at {to:#x} otherwise than by a jump to its start that is always taken"
    )]
    Shared {
        /// The instruction that leads there.
        at: u64,
        /// Where it leads.
        to: u64,
    },
    /// The table of landing pads is not understood.
    #[error("the exception table of the code at {at:#x} is not readable")]
    ExceptionTable {
        /// The start of the code.
        at: u64,
    },
    /// At a return or a jump to another function, the stack pointer is not where it was at the entry.
    #[error("at the exit at {at:#x} the stack is not that of the entry, as far as is known")]
    Stack {
        /// The exit.
        at: u64,
    },
    /// There is more code than is followed.
    #[error("there are more than {MAX_INSTRUCTIONS} instructions to follow")]
    TooLong,
}
