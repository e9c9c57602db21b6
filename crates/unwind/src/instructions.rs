//! Properties of machine code.

use iced_x86::Instruction;
use iced_x86::InstructionInfoFactory;
use iced_x86::Mnemonic;
use iced_x86::OpAccess;
use iced_x86::OpKind;
use iced_x86::Register;

/// The registers that a function leaves to its caller as they were.
pub(crate) const CALLEE_SAVED: [Register; 6] =
    [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];

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

/// Whether what an instruction does depends on a 64-bit register or a part of it. `xor %REGISTER, %REGISTER` and
/// `or $-1, %REGISTER` do not.
pub(crate) fn reads(
    info: &mut InstructionInfoFactory,
    instruction: &Instruction,
    register: Register,
) -> bool {
    let sets_all = instruction.mnemonic() == Mnemonic::Or
        && instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() != OpKind::Register
        && instruction.op1_kind() != OpKind::Memory
        && instruction.immediate(1) == u64::MAX;
    !sets_all
        && info.info(instruction).used_registers().iter().any(|used| {
            let read = !matches!(used.access(), OpAccess::None | OpAccess::Write | OpAccess::CondWrite);
            read && used.register().full_register() == register
        })
}
