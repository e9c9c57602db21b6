//! The targets of `switch` statements, in the two forms that compilers emit.

use iced_x86::Instruction;
use iced_x86::Mnemonic;
use iced_x86::OpKind;
use iced_x86::Register;

use crate::image::Image;

const MAX_ENTRIES: u64 = 4096;

/// The targets of an indirect jump. `before`: the instructions before it, the last one first. `None`: there is no jump
/// table.
///
/// Position-independent: `cmp $n; ja …; lea table(%rip),%t; movslq (%t,%i,4),%a; add %t,%a; jmp *%a`.
/// Position-dependent: `cmp $n; ja …; jmp *table(,%i,8)`.
pub(super) fn targets(image: &Image<'_>, jump: &Instruction, before: &[Instruction]) -> Option<Vec<u64>> {
    let entries =
        before.iter().find(|i| i.mnemonic() == Mnemonic::Cmp && is_immediate(i.op1_kind()))?.immediate(1);
    // With `ja` the table includes n, with `jae` it does not. An additional entry may lie outside the table; a missing
    // entry would miss code.
    let exclusive = before.iter().any(|i| i.mnemonic() == Mnemonic::Jae);
    let inclusive = before.iter().any(|i| i.mnemonic() == Mnemonic::Ja);
    if exclusive == inclusive || entries >= MAX_ENTRIES {
        return None;
    }
    let entries = entries as usize + usize::from(inclusive);
    if jump.op0_kind() == OpKind::Memory {
        let absolute = jump.memory_base() == Register::None && jump.memory_index_scale() == 8;
        let table = image.bytes_at(jump.memory_displacement64()).filter(|_| absolute)?;
        let words = table.as_chunks::<8>().0.get(..entries)?;
        return Some(words.iter().map(|word| u64::from_le_bytes(*word)).collect());
    }
    let target = jump.op0_register();
    let mut steps = before.iter();
    let add = steps.find(|i| i.op0_register() == target)?;
    if add.mnemonic() != Mnemonic::Add || add.op1_kind() != OpKind::Register {
        return None;
    }
    let load = before.iter().find(|i| i.mnemonic() == Mnemonic::Movsxd)?;
    let table_register = load.memory_base();
    let loaded = load.op0_register();
    let sum = [(target, add.op1_register()), (add.op1_register(), target)];
    if load.memory_index_scale() != 4
        || load.memory_displacement64() != 0
        || !sum.contains(&(loaded, table_register))
    {
        return None;
    }
    let lea = before.iter().find(|i| i.mnemonic() == Mnemonic::Lea && i.op0_register() == table_register)?;
    if !lea.is_ip_rel_memory_operand() {
        return None;
    }
    let base = lea.ip_rel_memory_address();
    let words = image.bytes_at(base)?.as_chunks::<4>().0.get(..entries)?;
    Some(words.iter().map(|word| base.wrapping_add_signed(i64::from(i32::from_le_bytes(*word)))).collect())
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
