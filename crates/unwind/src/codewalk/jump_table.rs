//! The targets of `switch` statements, in the two forms that compilers emit.

use iced_x86::FlowControl;
use iced_x86::Instruction;
use iced_x86::InstructionInfoFactory;
use iced_x86::Mnemonic;
use iced_x86::OpKind;
use iced_x86::Register;

use crate::image::Image;
use crate::instructions;

const MAX_ENTRIES: u64 = 4096;
/// Instructions before the jump among which all are but the one that loads the address of the table.
const NEAR: usize = 24;

/// The targets of an indirect jump. `way`: the instructions on a way to it, the last one first. `None`: there is no jump
/// table.
///
/// Position-independent: `cmp $n; ja …; lea table(%rip),%t; movslq (%t,%i,4),%a; add %t,%a; jmp *%a`. The address of
/// the table may be loaded much earlier, and the comparison may jump to the code that uses the table. Without optimization, see
/// [`unoptimized_base`].
/// Position-dependent: `cmp $n; ja …; jmp *table(,%i,8)`.
pub(crate) fn targets(
    image: &Image<'_>,
    jump: &Instruction,
    way: &[&Instruction],
    info: &mut InstructionInfoFactory,
) -> Option<Vec<u64>> {
    let entries = entries(jump, way)?;
    if jump.op0_kind() == OpKind::Memory {
        let absolute = jump.memory_base() == Register::None && jump.memory_index_scale() == 8;
        let table = image.bytes_at(jump.memory_displacement64()).filter(|_| absolute)?;
        let words = table.as_chunks::<8>().0.get(..entries)?;
        return Some(words.iter().map(|word| u64::from_le_bytes(*word)).collect());
    }
    let target = jump.op0_register();
    let near = &way[..way.len().min(NEAR)];
    let add = near.iter().find(|i| i.op0_register() == target)?;
    if add.mnemonic() != Mnemonic::Add || add.op1_kind() != OpKind::Register {
        return None;
    }
    let Some(load_at) = near.iter().position(|i| i.mnemonic() == Mnemonic::Movsxd) else {
        let base = unoptimized_base(add, near, way, info)?;
        return relative_targets(image, base, entries);
    };
    let load = near[load_at];
    let table_register = load.memory_base();
    let loaded = load.op0_register();
    let sum = [(target, add.op1_register()), (add.op1_register(), target)];
    if load.memory_index_scale() != 4
        || load.memory_displacement64() != 0
        || !sum.contains(&(loaded, table_register))
    {
        return None;
    }
    let base = loaded_address(table_register, &way[load_at + 1..], info)?;
    relative_targets(image, base, entries)
}

/// The targets of a table of distances from its start.
fn relative_targets(image: &Image<'_>, base: u64, entries: usize) -> Option<Vec<u64>> {
    let words = image.bytes_at(base)?.as_chunks::<4>().0.get(..entries)?;
    Some(words.iter().map(|word| base.wrapping_add_signed(i64::from(i32::from_le_bytes(*word)))).collect())
}

/// The address of a table as code without optimization uses it: `lea (,%i,4),%x; lea table(%rip),%t; mov (%x,%t),%eax; cltq;
/// lea table(%rip),%t; add %t,%rax`.
fn unoptimized_base(
    add: &Instruction,
    near: &[&Instruction],
    way: &[&Instruction],
    info: &mut InstructionInfoFactory,
) -> Option<u64> {
    let add_at = near.iter().position(|i| i.ip() == add.ip())?;
    let extend_at = near.iter().position(|i| i.mnemonic() == Mnemonic::Cdqe)?;
    let load_at = extend_at + 1;
    let load = near.get(load_at)?;
    let loads = load.mnemonic() == Mnemonic::Mov
        && load.op0_register() == Register::EAX
        && load.op1_kind() == OpKind::Memory
        && load.memory_index_scale() == 1
        && load.memory_displacement64() == 0;
    if !loads || extend_at < add_at || add.op0_register() != Register::RAX {
        return None;
    }
    let base = loaded_address(add.op1_register(), way.get(add_at + 1..)?, info)?;
    let before = way.get(load_at + 1..)?;
    let scaled = |register: Register| {
        let last = before.iter().find(|i| i.op0_register() == register)?;
        let is_index = last.mnemonic() == Mnemonic::Lea
            && last.memory_base() == Register::None
            && last.memory_index_scale() == 4
            && last.memory_displacement64() == 0;
        is_index.then_some(())
    };
    let mut is_pair = |index: Register, table: Register| {
        scaled(index).is_some() && loaded_address(table, before, info) == Some(base)
    };
    let (one, other) = (load.memory_base(), load.memory_index());
    (is_pair(one, other) || is_pair(other, one)).then_some(base)
}

/// The number of entries, by the comparison before the jump. One too many may lie outside of the table; a missing one would
/// miss code.
fn entries(jump: &Instruction, way: &[&Instruction]) -> Option<usize> {
    let near = &way[..way.len().min(NEAR)];
    near.iter().enumerate().find_map(|(at, branch)| {
        let next = if at == 0 { jump } else { near[at - 1] };
        let is_taken = branch.near_branch_target() == next.ip();
        let inclusive = match (branch.mnemonic(), is_taken) {
            (Mnemonic::Ja, false) | (Mnemonic::Jbe, true) => 1,
            (Mnemonic::Jae, false) | (Mnemonic::Jb, true) => 0,
            _ => return None,
        };
        let cmp = near[at + 1..].iter().find(|i| i.rflags_modified() != 0)?;
        let is_limit = cmp.mnemonic() == Mnemonic::Cmp && is_immediate(cmp.op1_kind());
        let limit = is_limit.then(|| cmp.immediate(1)).filter(|limit| *limit < MAX_ENTRIES)?;
        Some(limit as usize + inclusive)
    })
}

/// The address that a register holds after `way`, if the last instruction that writes it is `lea ADDRESS(%rip)`.
fn loaded_address(
    register: Register,
    way: &[&Instruction],
    info: &mut InstructionInfoFactory,
) -> Option<u64> {
    for instruction in way {
        let calls = matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
        if calls && !instructions::CALLEE_SAVED.contains(&register) {
            return None;
        }
        if instructions::writes(info, instruction, register) {
            let loads = instruction.mnemonic() == Mnemonic::Lea && instruction.is_ip_rel_memory_operand();
            return loads.then(|| instruction.ip_rel_memory_address());
        }
    }
    None
}

fn is_immediate(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Immediate8
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
    )
}
