//! Instructions of x86-64: the call before a return address, and the ways that lead out of a function.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};

use super::code::Code;

/// The longest call is decoded from this many bytes before its return address.
const LONGEST_CALL: u64 = 10;

/// Where an instruction leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Way {
    /// To this address of the file.
    To(u64),
    /// To the address in this slot.
    BySlot(u64),
    /// To an address that only the running program knows.
    Anywhere,
}

fn way(instruction: &Instruction) -> Option<Way> {
    match instruction.flow_control() {
        FlowControl::Call | FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
            Some(Way::To(instruction.near_branch_target()))
        }
        FlowControl::IndirectCall | FlowControl::IndirectBranch => {
            let by_slot = instruction.op0_kind() == OpKind::Memory && instruction.is_ip_rel_memory_operand();
            Some(if by_slot { Way::BySlot(instruction.memory_displacement64()) } else { Way::Anywhere })
        }
        _ => None,
    }
}

fn is_call(instruction: &Instruction) -> bool {
    // The system calls count as calls, too, and have no target.
    matches!(instruction.mnemonic(), Mnemonic::Call)
}

fn decode(bytes: &[u8], address: u64) -> Decoder<'_> {
    Decoder::with_ip(64, bytes, address, DecoderOptions::NONE)
}

/// The call that ends at a return address; nothing if none does.
///
/// The instructions of the function, from its start, say so. If none of them ends at the return address, any call that can be decoded there
/// counts.
pub(super) fn call_before(code: &Code, return_address: u64) -> Option<Way> {
    if let Some(extent) = code.extent(return_address.checked_sub(1)?)
        && let Some(bytes) = code.range(&extent)
        && let Some(last) = decode(bytes, extent.start)
            .into_iter()
            .find(|instruction| instruction.next_ip() >= return_address)
        && last.next_ip() == return_address
        && !last.is_invalid()
    {
        return if is_call(&last) { way(&last) } else { None };
    }
    let calls = (2..=LONGEST_CALL).filter_map(|len| {
        let start = return_address.checked_sub(len)?;
        let instruction = decode(code.at(start)?, start).decode();
        (instruction.len() as u64 == len && is_call(&instruction)).then(|| way(&instruction)).flatten()
    });
    // A direct call has a target that can be judged.
    calls.max_by_key(|way| matches!(way, Way::To(to) if code.extent(*to).is_some()))
}

/// All ways out of a function but calls and returns. Its code is decoded from the start to the end, whether it is reached or not.
pub(super) fn ways_out(code: &Code, extent: &Range<u64>) -> Vec<Way> {
    let mut ways = Vec::new();
    let Some(bytes) = code.range(extent) else { return ways };
    let mut last = None;
    for instruction in &mut decode(bytes, extent.start) {
        last = Some((instruction.flow_control(), instruction.mnemonic(), instruction.is_invalid()));
        let leaves = match instruction.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall => None,
            _ => way(&instruction),
        };
        ways.extend(leaves.filter(|way| !matches!(way, Way::To(to) if extent.contains(to))));
    }
    let padding = [Mnemonic::Nop, Mnemonic::Int3, Mnemonic::Hlt, Mnemonic::Ud2];
    if let Some((FlowControl::Next | FlowControl::ConditionalBranch, mnemonic, false)) = last
        && !padding.contains(&mnemonic)
    {
        ways.push(Way::To(extent.end));
    }
    ways
}

/// Where a stub leads: the first jump from its start on.
pub(super) fn stub_leads(code: &Code, start: u64) -> Way {
    let Some(bytes) = code.at(start) else { return Way::Anywhere };
    let jumps = |instruction: &Instruction| {
        matches!(instruction.flow_control(), FlowControl::UnconditionalBranch | FlowControl::IndirectBranch)
    };
    let first = decode(bytes, start).into_iter().take(4).find(jumps);
    first.and_then(|jump| way(&jump)).unwrap_or(Way::Anywhere)
}
