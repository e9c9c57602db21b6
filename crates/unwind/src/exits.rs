//! Where a function returns to its caller: all ends of all paths through its code.
//!
//! A return probe puts an address of the kernel in the place of a return address, and no unwinder leads across it: an exception, or the
//! unwinding of a cancelled thread, ends the program there. Probes at the instructions that return have no such effect.
//!
//! In: [`ExitIndex`], the described code of a file; [`ExitIndex::exits`], which follows a function ([`follow`]) from its entry and from
//! the landing pads of its exceptions ([`landing_pads`]).
//! Guaranteed: exact or refused. [`Unfollowed`] names the place that is not understood. Work is bounded by [`model::MAX_INSTRUCTIONS`]; no input
//! causes a panic. Only code of x86-64 is followed.
//! Not here: symbols and imports, which the caller knows ([`Symbols`]).

mod code;
mod follow;
mod landing_pads;
mod model;

use crate::Error;
use crate::cfi::program::{Program, Step};
use crate::frames;
use crate::image::Image;
use crate::machine::Machine;

use code::Described;
use follow::Follow;

pub use model::{Callee, Exits, JumpsOut, Question, Symbols, Unfollowed};

/// The described code of a file.
#[derive(Debug)]
pub struct ExitIndex {
    described: Described,
}

impl ExitIndex {
    /// Reads the descriptions of an ELF file.
    ///
    /// # Errors
    /// As [`crate::compile`].
    pub fn read(elf: &[u8]) -> Result<Self, Error> {
        Ok(Self { described: Described::read(&Image::parse(elf)?) })
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
        let exits = Follow::new(&image, &self.described, question).run()?;
        if question.jumps_out == JumpsOut::Exit {
            check_stack(&image, &exits)?;
        }
        Ok(exits)
    }

    /// Whether a described function begins at an address.
    #[must_use]
    pub fn begins_at(&self, address: u64) -> bool {
        self.described.begins_at(address)
    }
}

/// Refuses exits at which the stack pointer is not that of the entry, as far as unwind information tells. For jumps to members of objects it must
/// tell.
fn check_stack(image: &Image<'_>, exits: &Exits) -> Result<(), Unfollowed> {
    let mut moved = None;
    let mut all = [&exits.returns[..], &exits.jumps].concat();
    all.sort_unstable();
    let mut untold = exits.members.clone();
    frames::each_eh_frame(image, |fde, end, cie| {
        untold.retain(|at| !(fde.start..end).contains(at));
        let from = all.partition_point(|at| *at < fde.start);
        let mut returns = all.iter().skip(from).take_while(|at| **at < end).copied().peekable();
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
    moved.or(untold.first().copied()).map_or(Ok(()), |at| Err(Unfollowed::Stack { at }))
}

fn program_is_elsewhere(image: &Image<'_>, program: &Program<'_, '_>) -> bool {
    program.state.cfa != image.machine.cfa_at_entry()
}
