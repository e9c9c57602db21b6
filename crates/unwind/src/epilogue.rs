//! The end of functions that realign their stack, whose rows GCC writes too late.
//!
//! Such a function saves rbp where its own rbp points: `*(rbp + 0)`. GCC keeps that row up to the return, although
//! `leave` or `pop %rbp` gives rbp back a few instructions earlier. A walk from there reads the frame pointer of the
//! caller's caller and skips a frame. The instructions show where the row stops to hold.

use std::ops::Range;

use iced_x86::Decoder;
use iced_x86::DecoderOptions;
use iced_x86::FlowControl;
use iced_x86::Instruction;
use iced_x86::Mnemonic;
use iced_x86::Register;

use crate::abi::Rule;
use crate::abi::cfa;
use crate::abi::fp;
use crate::image::Image;

/// Bytes of a row that are read. The instructions between two rows of an epilogue take a few.
const MAX_ROW: usize = 256;

/// Whether a rule is one that an epilogue may have made untrue: rbp leads to the caller's, and the CFA no longer comes
/// from rbp. The body of the function has its CFA in memory beside rbp, so its rows are not read.
pub(crate) fn may_be_late(rule: &Rule) -> bool {
    rule.fp == fp::FP && matches!(rule.cfa, cfa::REG | cfa::SP)
}

/// Follows the rows of one function.
pub(crate) struct Epilogue<'i, 'a> {
    image: &'i Image<'a>,
    /// Where the last row of an epilogue ends that has given rbp back.
    given_back: Option<u64>,
}

impl<'i, 'a> Epilogue<'i, 'a> {
    pub(crate) fn new(image: &'i Image<'a>) -> Self {
        Self { image, given_back: None }
    }

    /// Calls `row` with the true rows of a range. Its frame information has `rule` for all of it.
    pub(crate) fn rows(&mut self, range: Range<u64>, rule: Rule, mut row: impl FnMut(u64, Rule)) {
        let given_back = Rule { fp: fp::SAME, fp_off: 0, ..rule };
        let before = self.given_back.take() == Some(range.start);
        row(range.start, if before { given_back } else { rule });
        let code = self.image.bytes_at(range.start).unwrap_or_default();
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(code.len());
        match end_of_frame(&code[..len.min(MAX_ROW)], range.start) {
            _ if before => self.given_back = Some(range.end),
            Some(at) => {
                if at < range.end {
                    row(at, given_back);
                }
                self.given_back = Some(range.end);
            }
            None => {}
        }
    }
}

/// The address behind the instruction that gives rbp back, if control certainly comes to it from `start`.
fn end_of_frame(code: &[u8], start: u64) -> Option<u64> {
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let pops = instruction.mnemonic() == Mnemonic::Pop && instruction.op0_register() == Register::RBP;
        if pops || instruction.mnemonic() == Mnemonic::Leave {
            return Some(instruction.next_ip());
        }
        if instruction.is_invalid() || instruction.flow_control() != FlowControl::Next {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instruction_that_gives_rbp_back() {
        // leave; add %rdx, %rax; lea -8(%r10), %rsp; ret
        let leave = [0xc9, 0x48, 0x01, 0xd0, 0x49, 0x8d, 0x62, 0xf8, 0xc3];
        assert_eq!(end_of_frame(&leave, 0x1000), Some(0x1001));
        // pop %r12; pop %rbp; lea -8(%r10), %rsp
        assert_eq!(end_of_frame(&[0x41, 0x5c, 0x5d, 0x49, 0x8d, 0x62, 0xf8], 0x20), Some(0x23));
        // sub $0x68, %rsp; a jump, a return and a call before the instruction; no code.
        for code in [
            &[0x48, 0x83, 0xec, 0x68][..],
            &[0xeb, 0x00, 0xc9],
            &[0xc3, 0x5d],
            &[0xe8, 0, 0, 0, 0, 0xc9],
            &[0x06, 0xc9],
            &[],
        ] {
            assert_eq!(end_of_frame(code, 0), None, "{code:x?}");
        }
    }

    #[test]
    fn only_rows_of_an_epilogue_are_read() {
        let late = Rule { cfa: cfa::REG, fp: fp::FP, flags: 10, ra_off: -8, ..Rule::NONE };
        assert!(may_be_late(&late));
        assert!(may_be_late(&Rule { cfa: cfa::SP, flags: 0, ..late }));
        assert!(!may_be_late(&Rule { cfa: cfa::FP_DEREF, flags: 0, ..late }));
        assert!(!may_be_late(&Rule { fp: fp::CFA, ..late }));
    }
}
