//! The function at one address of code that is too much to analyse as a whole: browsers have 160 MB of code without descriptions.
//!
//! The layout of the code tells where functions begin: one that keeps a frame pointer begins with a prologue, and LLVM's linker puts
//! traps (0xcc) between functions. From the nearest prologue behind a trap, instruction after instruction is read. A function ends
//! where control does not go on, traps or a prologue follow, and it has no jump to what follows. Code that no jump leads to or over may be
//! another function, without a prologue: from there on there is no answer.
//!
//! The answer for an address depends on the file alone.

use std::collections::BTreeSet;
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use crate::image::Image;

#[cfg(test)]
mod tests;

/// Longer functions are not told.
const MAX_FUNCTION: u64 = 64 << 10;
/// Compilers align functions to this, unless they are to be small.
const ALIGNMENT: u64 = 16;
/// `push rbp; mov rbp, rsp`.
const PROLOGUE: [u8; 4] = [0x55, 0x48, 0x89, 0xe5];
/// `int3`, which runs nowhere but before `ud2`.
const TRAP: u8 = 0xcc;
const UD2: [u8; 2] = [0x0f, 0x0b];

/// The code of the function at `address`, from its start to the last address of which it is known that it belongs to it. `within`: the
/// code without descriptions around the address.
pub(super) fn function_at(image: &Image<'_>, within: &Range<u64>, address: u64) -> Option<Range<u64>> {
    let first = address.saturating_sub(MAX_FUNCTION).max(within.start);
    let all = image.bytes_at(first)?;
    let len = (within.end.min(address.saturating_add(MAX_FUNCTION)).checked_sub(first)?) as usize;
    let code = Code { bytes: all.get(..len.min(all.len()))?, first };
    Reading::new(&code, code.proven_start(address)?).function_with(address)
}

/// Bytes of code, and the address of the first.
struct Code<'a> {
    bytes: &'a [u8],
    first: u64,
}

impl<'a> Code<'a> {
    fn at(&self, address: u64) -> &'a [u8] {
        let from = usize::try_from(address.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.bytes.get(from..).unwrap_or_default()
    }

    /// The last function that begins at or before `address` with a prologue behind a trap.
    fn proven_start(&self, address: u64) -> Option<u64> {
        let mut start = address - address % ALIGNMENT;
        while start > self.first {
            if self.at(start - 1).first() == Some(&TRAP) && self.at(start).starts_with(&PROLOGUE) {
                return Some(start);
            }
            start -= ALIGNMENT;
        }
        None
    }

    /// The function behind the traps at `address`, if only traps lie between.
    fn behind_traps(&self, address: u64) -> Option<u64> {
        let traps = self.at(address).iter().take_while(|byte| **byte == TRAP).count() as u64;
        let next = address + traps;
        let is_crash = traps == 1 && self.at(next).starts_with(&UD2);
        (traps > 0 && next.is_multiple_of(ALIGNMENT) && !is_crash && !self.at(next).is_empty())
            .then_some(next)
    }
}

/// How code goes on behind an instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    Reached,
    /// A call, which may never return.
    Maybe,
    Unreached,
}

/// A function while it is read.
struct Reading<'a> {
    code: &'a Code<'a>,
    start: u64,
    /// Its jumps to code that no other function begins with: the address of the jump and where it leads to.
    jumps: Vec<(u64, u64)>,
    /// Where those lead to.
    targets: BTreeSet<u64>,
    /// Places at which another function without a prologue may begin, in order.
    doubts: Vec<u64>,
    /// How many of them lie before the last instruction that saves rbp.
    before_save: usize,
    /// It jumps by a table.
    has_table: bool,
    /// The register that the last instruction added to: distances in a table are added to its address.
    sum: Register,
}

impl<'a> Reading<'a> {
    fn new(code: &'a Code<'a>, start: u64) -> Self {
        Self {
            code,
            start,
            jumps: Vec::new(),
            targets: BTreeSet::new(),
            doubts: Vec::new(),
            before_save: 0,
            has_table: false,
            sum: Register::None,
        }
    }

    /// Reads on from this function's start until the end of the one with `address`.
    fn function_with(mut self, address: u64) -> Option<Range<u64>> {
        let mut behind = Behind::Reached;
        let mut decoder = self.decoder(self.start);
        let mut instruction = Instruction::default();
        // Where control ended, before padding.
        let mut end = self.start;
        while decoder.can_decode() {
            let at = decoder.ip();
            if let Some(next) = self.next_function(at, behind) {
                if address < next {
                    return Some(self.known_until(end)).filter(|known| known.contains(&address));
                }
                self = Self::new(self.code, next);
                (behind, end, decoder) = (Behind::Reached, next, self.decoder(next));
                continue;
            }
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                return None;
            }
            if behind == Behind::Unreached && instruction.mnemonic() == Mnemonic::Nop {
                continue;
            }
            self.doubt(at, behind);
            self.look_at_rbp(&instruction);
            behind = self.follow(&instruction);
            end = instruction.next_ip();
        }
        // The end of what is read at most is not the end of a function.
        None
    }

    fn decoder(&self, address: u64) -> Decoder<'a> {
        Decoder::with_ip(64, self.code.at(address), address, DecoderOptions::NONE)
    }

    /// The function that begins at this place or behind traps at this place, if one surely does.
    fn next_function(&self, at: u64, behind: Behind) -> Option<u64> {
        if behind == Behind::Reached || self.targets.contains(&at) {
            return None;
        }
        let begins = || self.code.at(at).starts_with(&PROLOGUE).then_some(at);
        self.code.behind_traps(at).or_else(begins)
    }

    /// Notes that a function without a prologue may begin here.
    fn doubt(&mut self, at: u64, behind: Behind) {
        let is_aligned = at.is_multiple_of(ALIGNMENT);
        match behind {
            Behind::Unreached if is_aligned || !self.has_table => self.doubts.push(at),
            // The last call of a function may never return, and need no padding.
            Behind::Maybe => self.doubts.push(at),
            _ => {}
        }
    }

    /// Code that restores rbp belongs to the function that has saved it, and so does what lies between.
    fn look_at_rbp(&mut self, instruction: &Instruction) {
        let is_rbp = instruction.op0_register() == Register::RBP;
        match instruction.mnemonic() {
            Mnemonic::Pop if is_rbp => self.doubts.truncate(self.before_save),
            Mnemonic::Leave => self.doubts.truncate(self.before_save),
            Mnemonic::Push if is_rbp => self.before_save = self.doubts.len(),
            _ => {}
        }
    }

    fn follow(&mut self, instruction: &Instruction) -> Behind {
        let behind = match instruction.flow_control() {
            FlowControl::ConditionalBranch => {
                self.jump(instruction);
                Behind::Reached
            }
            FlowControl::UnconditionalBranch => {
                self.jump(instruction);
                Behind::Unreached
            }
            FlowControl::IndirectBranch => {
                self.has_table |= match instruction.op0_kind() {
                    OpKind::Register => instruction.op0_register() == self.sum,
                    _ => instruction.memory_index() != Register::None,
                };
                Behind::Unreached
            }
            FlowControl::Return | FlowControl::Exception => Behind::Unreached,
            FlowControl::Call | FlowControl::IndirectCall => Behind::Maybe,
            _ if instruction.mnemonic() == Mnemonic::Hlt => Behind::Unreached,
            _ => Behind::Reached,
        };
        let adds = instruction.mnemonic() == Mnemonic::Add;
        self.sum = if adds { instruction.op0_register() } else { Register::None };
        behind
    }

    /// A jump forward to an aligned place may lead to another function, and one to a place before the start does.
    fn jump(&mut self, instruction: &Instruction) {
        let (at, target) = (instruction.ip(), instruction.near_branch_target());
        if target > self.start && (target <= at || !target.is_multiple_of(ALIGNMENT)) {
            self.jumps.push((at, target));
            self.targets.insert(target);
        }
    }

    /// The part of this function, which ends at `end`, that surely belongs to it: up to the first doubtful place that no jump leads to and
    /// over which none leads.
    fn known_until(mut self, end: u64) -> Range<u64> {
        self.jumps.sort_unstable_by_key(|(at, target)| *at.min(target));
        let mut jumps = self.jumps.iter().filter(|(at, target)| *at.max(target) < end).peekable();
        // As far as the jumps lead that begin before a place.
        let mut reached = self.start;
        for doubt in self.doubts.into_iter().filter(|doubt| *doubt < end) {
            while let Some((at, target)) = jumps.next_if(|(at, target)| *at.min(target) < doubt) {
                reached = reached.max(*at.max(target));
            }
            if reached < doubt {
                return self.start..doubt;
            }
        }
        self.start..end
    }
}
