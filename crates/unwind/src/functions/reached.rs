//! The code that control reaches from the start of a function without leaving it.
//!
//! Instructions are read one after the other. The function ends behind an instruction that control does not pass, unless a conditional
//! jump led over it: such a jump stays in its function. An unconditional jump forward may lead to another function, so it proves nothing.
//! A call followed by padding may be the end: the callee may never return.

use std::ops::ControlFlow;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};

use crate::image::Image;
use crate::machine::Machine;

/// Bytes of code that are read of a function.
const MAX_FUNCTION: u64 = 64 << 10;

/// Whether control reaches the next instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    Reached,
    /// A call.
    Maybe,
    Unreached,
}

/// How far a function is known to go.
struct Extent {
    /// The end of the instructions that are read.
    end: u64,
    /// The last place that a conditional jump leads to.
    target: u64,
    behind: Behind,
}

impl Extent {
    /// Enters an instruction at [`Self::end`].
    fn enter(&mut self, next: u64, target: Option<u64>, behind: Behind, limit: u64) -> ControlFlow<()> {
        if let Some(target) = target.filter(|target| *target < limit) {
            self.target = self.target.max(target);
        }
        (self.end, self.behind) = (next, behind);
        if behind == Behind::Unreached { self.unless_led_over() } else { ControlFlow::Continue(()) }
    }

    fn unless_led_over(&self) -> ControlFlow<()> {
        if self.target < self.end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// The end of the code that the function at `start` surely has, at most `limit`.
pub(super) fn end(image: &Image<'_>, start: u64, limit: u64) -> u64 {
    let len = limit.saturating_sub(start).min(MAX_FUNCTION);
    let code = image.bytes_at(start).unwrap_or_default();
    let code = &code[..code.len().min(len as usize)];
    let extent = Extent { end: start, target: start, behind: Behind::Reached };
    match image.machine {
        Machine::X86_64 => of_x86_64(code, extent, limit),
        Machine::Aarch64 => of_aarch64(code, extent, limit),
    }
}

fn of_x86_64(code: &[u8], mut extent: Extent, limit: u64) -> u64 {
    let mut decoder = Decoder::with_ip(64, code, extent.end, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let is_padding = matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3);
        let may_be_behind = extent.behind == Behind::Maybe && is_padding;
        if instruction.is_invalid() || may_be_behind && extent.unless_led_over().is_break() {
            break;
        }
        let (target, behind) = match instruction.flow_control() {
            FlowControl::ConditionalBranch => (Some(instruction.near_branch_target()), Behind::Reached),
            FlowControl::Call | FlowControl::IndirectCall => (None, Behind::Maybe),
            FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::Return
            | FlowControl::Exception => (None, Behind::Unreached),
            _ if instruction.mnemonic() == Mnemonic::Hlt => (None, Behind::Unreached),
            _ => (None, Behind::Reached),
        };
        if extent.enter(instruction.next_ip(), target, behind, limit).is_break() {
            break;
        }
    }
    extent.end
}

fn of_aarch64(code: &[u8], mut extent: Extent, limit: u64) -> u64 {
    /// `nop`.
    const NOP: u32 = 0xd503_201f;
    for word in code.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)) {
        let may_be_behind = extent.behind == Behind::Maybe && word == NOP;
        // Zero is no instruction.
        if word == 0 || may_be_behind && extent.unless_led_over().is_break() {
            break;
        }
        let at = extent.end;
        let distance = |first: u32, bits: u32| {
            let field = ((word >> first) << (32 - bits)) as i32 >> (32 - bits);
            Some(at.wrapping_add_signed(i64::from(field) * 4))
        };
        let (target, behind) = match word {
            // b.cond, cbz, cbnz; tbz, tbnz
            _ if word >> 24 == 0x54 || word & 0x7e00_0000 == 0x3400_0000 => {
                (distance(5, 19), Behind::Reached)
            }
            _ if word & 0x7e00_0000 == 0x3600_0000 => (distance(5, 14), Behind::Reached),
            // bl, blr, svc
            _ if word >> 26 == 0b10_0101
                || word & 0xffff_fc1f == 0xd63f_0000
                || word & 0xffe0_001f == 0xd400_0001 =>
            {
                (None, Behind::Maybe)
            }
            // b; br, ret; brk
            _ if word >> 26 == 0b00_0101
                || matches!(word & 0xffff_fc1f, 0xd61f_0000 | 0xd65f_0000)
                || word & 0xffe0_001f == 0xd420_0000 =>
            {
                (None, Behind::Unreached)
            }
            _ => (None, Behind::Reached),
        };
        if extent.enter(at + 4, target, behind, limit).is_break() {
            break;
        }
    }
    extent.end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(code: &[u8], aarch64: bool) -> u64 {
        let extent = Extent { end: 0x1000, target: 0x1000, behind: Behind::Reached };
        let limit = 0x1000 + code.len() as u64;
        let end = if aarch64 { of_aarch64(code, extent, limit) } else { of_x86_64(code, extent, limit) };
        end - 0x1000
    }

    #[test]
    fn a_function_ends_where_control_ends_and_no_conditional_jump_leads_over() {
        // xor eax, eax; ret; nop
        assert_eq!(ends(&[0x31, 0xc0, 0xc3, 0x90], false), 3);
        // je +1; ret; ret; nop
        assert_eq!(ends(&[0x74, 0x01, 0xc3, 0xc3, 0x90], false), 4);
        // jmp +1; ret; ret: a jump may leave the function.
        assert_eq!(ends(&[0xeb, 0x01, 0xc3, 0xc3], false), 2);
        // call; nop: the callee may never return. call; pop rax; ret: it does.
        assert_eq!(ends(&[0xe8, 0, 0, 0, 0, 0x90, 0x90], false), 5);
        assert_eq!(ends(&[0xe8, 0, 0, 0, 0, 0x58, 0xc3, 0x90], false), 7);
        // jmp rax; nop
        assert_eq!(ends(&[0xff, 0xe0, 0x90], false), 2);
        // Without an end: all.
        assert_eq!(ends(&[0x90, 0x90], false), 2);
        // A jump beyond the limit leads to another function.
        assert_eq!(ends(&[0x74, 0x70, 0xc3, 0x90], false), 3);
        assert_eq!(ends(&[], false), 0);
    }

    #[test]
    fn the_same_on_aarch64() {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let (ret, nop) = (0xd65f_03c0, 0xd503_201f);
        assert_eq!(ends(&words(&[nop, ret, nop]), true), 8);
        // cbz x0, +8; tbz w0, #0, +8
        assert_eq!(ends(&words(&[0xb400_0040, ret, ret, nop]), true), 12);
        assert_eq!(ends(&words(&[0x3600_0040, ret, ret, nop]), true), 12);
        // b +8; bl; svc #0
        assert_eq!(ends(&words(&[0x1400_0002, ret, ret]), true), 4);
        assert_eq!(ends(&words(&[0x9400_0000, nop, ret]), true), 4);
        assert_eq!(ends(&words(&[0xd400_0001, nop, ret]), true), 4);
        assert_eq!(ends(&words(&[0x9400_0000, ret, nop]), true), 8);
    }
}
