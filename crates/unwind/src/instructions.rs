//! Properties of machine code.

use iced_x86::Decoder;
use iced_x86::DecoderOptions;
use iced_x86::Instruction;
use iced_x86::InstructionInfoFactory;
use iced_x86::Mnemonic;
use iced_x86::OpAccess;
use iced_x86::OpKind;
use iced_x86::Register;

/// Offset after the first instruction that loads sp with a value at no constant distance from the old one.
pub(crate) fn first_stack_switch(code: &[u8], address: u64) -> Option<u64> {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut info = InstructionInfoFactory::new();
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return None;
        }
        if writes_stack_pointer(&mut info, &instruction) && !moves_stack_by_constant(&instruction) {
            return Some(instruction.next_ip() - address);
        }
    }
    None
}

/// A fast test whether an instruction has rsp or rbp as register operand or changes them implicitly.
pub(crate) fn may_change_frame(instruction: &Instruction) -> bool {
    let named = |n| {
        instruction.op_kind(n) == OpKind::Register
            && matches!(instruction.op_register(n).full_register(), Register::RSP | Register::RBP)
    };
    instruction.is_stack_instruction() || (0..instruction.op_count()).any(named)
}

/// Whether an instruction writes rsp.
pub(crate) fn writes_stack_pointer(info: &mut InstructionInfoFactory, instruction: &Instruction) -> bool {
    writes(info, instruction, Register::RSP)
}

/// Whether an instruction writes a 64-bit register or a part of it.
pub(crate) fn writes(
    info: &mut InstructionInfoFactory,
    instruction: &Instruction,
    register: Register,
) -> bool {
    info.info(instruction).used_registers().iter().any(|used| {
        let written = !matches!(used.access(), OpAccess::None | OpAccess::Read | OpAccess::CondRead);
        written && used.register().full_register() == register
    })
}

fn moves_stack_by_constant(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        Mnemonic::Add | Mnemonic::Sub => {
            instruction.op1_kind() != OpKind::Register && instruction.op1_kind() != OpKind::Memory
        }
        Mnemonic::Lea => {
            instruction.memory_base() == Register::RSP && instruction.memory_index() == Register::None
        }
        // pop %rsp loads rsp, unlike other stack instructions.
        _ => instruction.is_stack_instruction() && instruction.op0_register() != Register::RSP,
    }
}
