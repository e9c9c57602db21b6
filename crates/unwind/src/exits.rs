//! Where a function returns to its caller: all ends of all paths through its code.
//!
//! A return probe puts an address of the kernel in the place of a return address, and no unwinder leads across it: an exception, or the
//! unwinding of a cancelled thread, ends the program there. Probes at the instructions that return have no such effect.
//!
//! In: [`ExitIndex`], the described code of a file; [`ExitIndex::exits`], which follows a function ([`follow`]) from its entry and from
//! the landing pads of its exceptions ([`landing_pads`]).
//! Guaranteed: exact or refused. [`Unfollowed`] names the place that is not understood. Work is bounded by [`MAX_INSTRUCTIONS`]; no input
//! causes a panic. Only code of x86-64 is followed.
//! Not here: symbols and imports, which the caller knows ([`Symbols`]).

mod follow;
mod landing_pads;

use std::ops::Range;

use crate::Error;
use crate::cfi::program::{Program, Step};
use crate::cfi::section::ExceptionTable;
use crate::frames;
use crate::functions::{Kind, covering, of_description, stubs};
use crate::image::Image;
use crate::machine::Machine;

use follow::Follow;

/// Limit of instructions that are followed for one function.
const MAX_INSTRUCTIONS: usize = 1 << 16;

/// The described code of a file, in the order of addresses.
#[derive(Debug)]
pub struct ExitIndex {
    code: Vec<Code>,
}

/// What one description covers.
#[derive(Clone, Copy, Debug)]
struct Code {
    start: u64,
    end: u64,
    kind: Kind,
    exceptions: ExceptionTable,
}

impl Code {
    fn range(&self) -> Range<u64> {
        self.start..self.end
    }
}

/// What the caller knows of a file.
pub trait Symbols {
    /// The extent of the function around an address, by its symbol.
    fn extent(&self, address: u64) -> Option<Range<u64>>;
    /// Whether the symbol at an address names a part of a function, as `f.cold`.
    fn is_part(&self, address: u64) -> bool;
    /// The function whose address the loader writes to this place.
    fn import(&self, slot: u64) -> Option<String>;
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
    /// At a return, the stack pointer is not where it was at the entry.
    #[error("at the return at {at:#x} the stack is not that of the entry")]
    Stack {
        /// The return.
        at: u64,
    },
    /// There is more code than is followed.
    #[error("there are more than {MAX_INSTRUCTIONS} instructions to follow")]
    TooLong,
}

impl ExitIndex {
    /// Reads the descriptions of an ELF file.
    ///
    /// # Errors
    /// As [`crate::compile`].
    pub fn read(elf: &[u8]) -> Result<Self, Error> {
        let image = Image::parse(elf)?;
        let stubs = stubs(&image);
        let mut code = Vec::new();
        frames::each_eh_frame(&image, |fde, end, cie| {
            let is_stub = stubs.iter().any(|stubs| stubs.contains(&fde.start));
            let (start, kind) =
                if is_stub { (fde.start, Kind::Stubs) } else { of_description(&image, fde, cie) };
            if start < end {
                code.push(Code { start, end, kind, exceptions: fde.exceptions });
            }
        });
        Ok(Self { code })
    }

    /// Finds the exits of a function. `elf` is the file that this was read from.
    ///
    /// # Errors
    /// [`Unfollowed`].
    pub fn exits(&self, elf: &[u8], question: &Question<'_>) -> Result<Exits, Unfollowed> {
        let image = Image::parse(elf)?;
        if image.machine != Machine::X86_64 {
            return Err(Unfollowed::Machine);
        }
        let exits = Follow::new(&image, self, question).run()?;
        if question.jumps_out == JumpsOut::Exit {
            check_stack(&image, &exits)?;
        }
        Ok(exits)
    }

    /// Whether a described function begins at an address.
    #[must_use]
    pub fn begins_at(&self, address: u64) -> bool {
        self.covering(address).is_some_and(|code| code.start == address && code.kind == Kind::Function)
    }

    fn covering(&self, address: u64) -> Option<&Code> {
        covering(&self.code, address, Code::range)
    }
}

/// Refuses returns at which the stack pointer is not that of the entry, as far as unwind information tells.
fn check_stack(image: &Image<'_>, exits: &Exits) -> Result<(), Unfollowed> {
    let mut moved = None;
    frames::each_eh_frame(image, |fde, end, cie| {
        let from = exits.returns.partition_point(|at| *at < fde.start);
        let mut returns = exits.returns.iter().skip(from).take_while(|at| **at < end).copied().peekable();
        if returns.peek().is_none() || moved.is_some() {
            return;
        }
        let mut program = Program::new(&cie.factors, fde.instructions, cie.initial, fde.start);
        while let (Some(at), Some(step)) = (returns.peek().copied(), program.next_row()) {
            let row_end = if let Step::Advance(next) = step { next } else { end };
            if at < row_end {
                if program_is_elsewhere(image, &program) {
                    moved = Some(at);
                }
                returns.next();
            }
            // Several returns of one row have the same state.
            while returns.next_if(|at| *at < row_end).is_some() {}
            if step == Step::End {
                break;
            }
        }
    });
    moved.map_or(Ok(()), |at| Err(Unfollowed::Stack { at }))
}

fn program_is_elsewhere(image: &Image<'_>, program: &Program<'_, '_>) -> bool {
    program.state.cfa != image.machine.cfa_at_entry()
}
