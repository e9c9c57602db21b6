//! Two places where the stack of a goroutine and that of the thread meet outside of a call: the end of the scheduler, which
//! loads the registers of the goroutine that goes on, and a call from C into Go, which leaves the thread's stack behind.
//!
//! Code that does not look as expected gives nothing.

use iced_x86::Decoder;
use iced_x86::DecoderOptions;
use iced_x86::Instruction;
use iced_x86::Mnemonic;
use iced_x86::OpKind;
use iced_x86::Register;

use super::stack_switch;

/// Longer functions are not looked at.
const MAX_CODE: usize = 4096;

/// Whether this is the end of the scheduler (`gogo`): it makes a `g` the current one, loads sp and rbp from what that `g` has
/// saved, and jumps to the pc saved there. `fp_behind_sp` is how far behind the saved sp rbp is saved.
pub(super) fn resumes(code: &[u8], fp_behind_sp: u64) -> bool {
    let mut decoder = Decoder::with_ip(64, &code[..code.len().min(MAX_CODE)], 0, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let (mut makes_current, mut saved_registers, mut loads_fp) = (false, Register::None, false);
    let mut pc_in = Register::None;
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let kinds = (instruction.op0_kind(), instruction.op1_kind());
        let base = instruction.memory_base();
        let is_plain = instruction.memory_index() == Register::None;
        let from_saved = base == saved_registers && base != Register::None && is_plain;
        match (instruction.mnemonic(), kinds, instruction.op0_register()) {
            (Mnemonic::Mov, (OpKind::Memory, _), _) if instruction.segment_prefix() == Register::FS => {
                makes_current = true;
            }
            (Mnemonic::Mov, (OpKind::Register, OpKind::Memory), Register::RSP) => {
                if !makes_current || !is_plain || instruction.memory_displacement64() != 0 {
                    return false;
                }
                saved_registers = base;
            }
            (Mnemonic::Mov, (OpKind::Register, OpKind::Memory), Register::RBP) => {
                loads_fp = from_saved && instruction.memory_displacement64() == fp_behind_sp;
            }
            (Mnemonic::Mov, (OpKind::Register, OpKind::Memory), register)
                if from_saved && instruction.memory_displacement64() == 8 =>
            {
                pc_in = register;
            }
            (Mnemonic::Jmp, (OpKind::Register, _), register) => {
                return loads_fp && register == pc_in;
            }
            _ => {}
        }
    }
    false
}

/// How far the CFA of a function (`cgocallback`) is above the sp that it saves in a `g` at the offset `saved_sp`, in words. The
/// function saves rbp at CFA − 16.
pub(super) fn words_above_saved_sp(code: &[u8], saved_sp: u16) -> Option<u8> {
    let states = stack_switch::states(code);
    let mut decoder = Decoder::with_ip(64, &code[..code.len().min(MAX_CODE)], 0, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut found = None;
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let saves_sp = instruction.mnemonic() == Mnemonic::Mov
            && instruction.op0_kind() == OpKind::Memory
            && instruction.op1_register() == Register::RSP
            && instruction.memory_base() != Register::RSP
            && instruction.memory_displacement64() == u64::from(saved_sp);
        if !saves_sp {
            continue;
        }
        let at = usize::try_from(instruction.ip()).ok()?;
        let state = states.iter().find(|(range, _)| range.start == at).map(|(_, state)| state)?;
        let words = u8::try_from(state.depth_with_saved_fp()? / 8 + 1).ok()?;
        if found.is_some_and(|before| before != words) {
            return None;
        }
        found = Some(words);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::scheduler::tests::code;
    use super::*;

    const GOGO_1_20: &str = "6448891425f8ffffff4989d6488b23488b4320488b5318488b6b3048c7030000000048c743200000000048c7431800000000\
         48c7433000000000488b5b08ffe3";
    const GOGO_1_26: &str = "6448891425f8ffffff4989d6488b23488b5318488b6b2848c7030000000048c743180000000048c7432800000000488b5b08ffe3";

    #[test]
    fn the_end_of_the_scheduler() {
        assert!(resumes(&code(GOGO_1_20), 0x30));
        assert!(resumes(&code(GOGO_1_26), 0x28));
        // rbp elsewhere; another word as pc; no current `g`; sp from elsewhere.
        assert!(!resumes(&code(GOGO_1_26), 0x30));
        for (from, to) in
            [("488b5b08", "488b5b10"), ("6448891425f8ffffff", ""), ("488b23", "488b6308"), ("ffe3", "ffe0")]
        {
            let changed = GOGO_1_26.replacen(from, to, 1);
            assert_ne!(changed, GOGO_1_26, "{from}");
            assert!(!resumes(&code(&changed), 0x28), "{from}");
        }
    }

    #[test]
    fn the_frame_that_calls_go() {
        // push rbp; mov rbp,rsp; sub rsp,0x18; mov [rsi+0x38],rsp; add rsp,0x18; pop rbp; ret
        const CALL: &str = "554889e54883ec18488966384883c4185dc3";
        assert_eq!(words_above_saved_sp(&code(CALL), 0x38), Some(5));
        assert_eq!(words_above_saved_sp(&code(CALL), 0x40), None);
        // sub rsp,0x20; mov [rsp+0x18],rbp; lea rbp,[rsp+0x18]; mov [rsi+0x38],rsp; mov rbp,[rsp+0x18]; add rsp,0x20; ret
        const OLD: &str = "4883ec2048896c2418488d6c241848896638488b6c24184883c420c3";
        assert_eq!(words_above_saved_sp(&code(OLD), 0x38), Some(5));
        // rbp is not saved.
        assert_eq!(words_above_saved_sp(&code("4883ec20488966384883c420c3"), 0x38), None);
        // Two frames of different size.
        const TWO: &str = "554889e54883ec18488966384883ec08488966384883c4205dc3";
        assert_eq!(words_above_saved_sp(&code(TWO), 0x38), None);
    }
}
