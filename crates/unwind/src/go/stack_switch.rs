//! Functions that load the stack pointer with an address on another stack.
//!
//! The stack-size table gives the distance of sp from its value at entry, and has none for another stack. So all paths of
//! such a function are followed. rbp often keeps the frame across a switch: then the frame is found by rbp.

use std::collections::BTreeMap;
use std::ops::Range;

use iced_x86::Decoder;
use iced_x86::DecoderOptions;
use iced_x86::FlowControl;
use iced_x86::Instruction;
use iced_x86::InstructionInfoFactory;
use iced_x86::Mnemonic;
use iced_x86::OpKind;
use iced_x86::Register;

use crate::abi::Rule;
use crate::abi::fp;
use crate::instructions;
use crate::x86_64;

/// Longer functions are not analysed. The runtime's have some hundred bytes.
const MAX_CODE: usize = 4096;

/// What rbp holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FramePointer {
    /// The value at entry.
    Callers,
    /// CFA − 16, where the value at entry is saved.
    Frame,
    Other,
}

/// What is known of the frame before an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SwitchState {
    /// How far sp is below its value at entry. `None`: sp is on another stack, or may be.
    depth: Option<i32>,
    /// The depth to which a load of sp leads back: that of the copy of sp that the function keeps.
    kept_depth: Option<i32>,
    frame_pointer: FramePointer,
    /// The value of rbp at entry is saved at CFA − 16.
    saved: bool,
}

impl SwitchState {
    const AT_ENTRY: Self =
        Self { depth: Some(0), kept_depth: None, frame_pointer: FramePointer::Callers, saved: false };

    /// Whether sp may be on another stack.
    pub(super) fn is_on_other_stack(&self) -> bool {
        self.depth.is_none()
    }

    /// How far sp is below its value at entry, if it is known and rbp is saved at CFA − 16.
    pub(super) fn depth_with_saved_fp(&self) -> Option<i32> {
        self.depth.filter(|_| self.saved)
    }

    /// The rule by sp on the stack of the entry, by rbp on another stack. `None`: neither tells the frame.
    pub(super) fn rule(&self) -> Option<Rule> {
        let saved = self.saved && self.frame_pointer != FramePointer::Callers;
        match self.depth {
            Some(depth @ 0..) if self.frame_pointer == FramePointer::Callers || saved => {
                Some(x86_64::sp_rule(depth.checked_add(8)?, saved.then_some(-16)))
            }
            Some(depth @ 0..) => {
                Some(Rule { fp: fp::UNDEFINED, ..x86_64::sp_rule(depth.checked_add(8)?, None) })
            }
            None if self.frame_pointer == FramePointer::Frame => Some(x86_64::fp_rule(16, -16)),
            _ => None,
        }
    }

    /// What holds where two paths join.
    fn meet(self, other: Self) -> Self {
        let same = |one, other| if one == other { one } else { None };
        Self {
            depth: same(self.depth, other.depth),
            kept_depth: same(self.kept_depth, other.kept_depth),
            frame_pointer: if self.frame_pointer == other.frame_pointer {
                self.frame_pointer
            } else {
                FramePointer::Other
            },
            saved: self.saved && other.saved,
        }
    }

    /// The state after an instruction.
    fn after(mut self, instruction: &Instruction, info: &mut InstructionInfoFactory) -> Self {
        if instruction.flow_control() != FlowControl::Next {
            return self;
        }
        let is = |n, register| {
            instruction.op_kind(n) == OpKind::Register && instruction.op_register(n) == register
        };
        let is_stack_word = |n| {
            instruction.op_kind(n) == OpKind::Memory
                && instruction.memory_base() == Register::RSP
                && instruction.memory_index() == Register::None
        };
        let displacement = instruction.memory_displacement64() as i32;
        // Whether the word at this distance from sp is the one at CFA − 16.
        let is_slot =
            |depth: Option<i32>| depth.is_some_and(|depth| depth.checked_sub(8) == Some(displacement));
        let immediate = || i32::try_from(instruction.immediate(1) as i64).ok();
        match instruction.mnemonic() {
            Mnemonic::Push => {
                if is(0, Register::RBP) && self.depth == Some(0) {
                    self.saved = self.frame_pointer == FramePointer::Callers;
                }
                self.move_down(Some(8));
            }
            Mnemonic::Pop if is(0, Register::RBP) => {
                let restores = self.saved && self.depth == Some(8);
                self.frame_pointer = if restores { FramePointer::Callers } else { FramePointer::Other };
                self.move_down(Some(-8));
            }
            Mnemonic::Pop if !is(0, Register::RSP) => self.move_down(Some(-8)),
            Mnemonic::Pushfq => self.move_down(Some(8)),
            Mnemonic::Popfq => self.move_down(Some(-8)),
            Mnemonic::Sub if is(0, Register::RSP) && instruction.op1_kind() != OpKind::Register => {
                self.move_down(immediate());
            }
            Mnemonic::Add if is(0, Register::RSP) && instruction.op1_kind() != OpKind::Register => {
                self.move_down(immediate().and_then(i32::checked_neg));
            }
            Mnemonic::Lea if is(0, Register::RSP) && is_stack_word(1) => {
                self.move_down(displacement.checked_neg());
            }
            Mnemonic::Leave if self.frame_pointer == FramePointer::Frame => {
                (self.depth, self.frame_pointer) = (Some(0), FramePointer::Callers);
            }
            Mnemonic::Mov if is(0, Register::RSP) && is(1, Register::RBP) => {
                self.depth = (self.frame_pointer == FramePointer::Frame).then_some(8);
            }
            // The second load leads back.
            Mnemonic::Mov if is(0, Register::RSP) => match self.depth {
                Some(depth) => {
                    self.kept_depth = self.kept_depth.or(Some(depth));
                    self.depth = None;
                }
                None => self.depth = self.kept_depth,
            },
            Mnemonic::And if is(0, Register::RSP) => {
                self.kept_depth = self.kept_depth.or(self.depth);
                self.depth = None;
            }
            Mnemonic::Mov if is(0, Register::RBP) && is(1, Register::RSP) => {
                self.set_frame_pointer(self.saved && self.depth == Some(8));
            }
            Mnemonic::Lea if is(0, Register::RBP) && is_stack_word(1) => {
                self.set_frame_pointer(self.saved && is_slot(self.depth));
            }
            Mnemonic::Mov if is(0, Register::RBP) && is_stack_word(1) => {
                let restores = self.saved && is_slot(self.depth);
                self.frame_pointer = if restores { FramePointer::Callers } else { FramePointer::Other };
            }
            Mnemonic::Mov if is_stack_word(0) && is_slot(self.depth) => {
                self.saved = is(1, Register::RBP) && self.frame_pointer == FramePointer::Callers;
            }
            Mnemonic::Mov if is(1, Register::RSP) && instruction.op_kind(0) == OpKind::Register => {
                self.kept_depth = self.depth.or(self.kept_depth);
            }
            _ if instructions::may_change_frame(instruction) => {
                if instructions::writes(info, instruction, Register::RSP) {
                    self.depth = None;
                }
                if instructions::writes(info, instruction, Register::RBP) {
                    self.frame_pointer = FramePointer::Other;
                }
            }
            _ => {}
        }
        if self.depth.is_some_and(|depth| depth < 8) {
            self.saved = false;
        }
        self
    }

    fn move_down(&mut self, by: Option<i32>) {
        if let Some(depth) = self.depth {
            self.depth = by.and_then(|by| depth.checked_add(by));
        }
    }

    fn set_frame_pointer(&mut self, to_frame: bool) {
        self.frame_pointer = if to_frame { FramePointer::Frame } else { FramePointer::Other };
    }
}

/// The states before all reached instructions of a function, in the order of offsets. Empty: the code is too long, or not
/// understood.
pub(super) fn states(code: &[u8]) -> Vec<(Range<usize>, SwitchState)> {
    let mut states = BTreeMap::from([(0, SwitchState::AT_ENTRY)]);
    let mut ends = BTreeMap::new();
    if code.len() > MAX_CODE {
        return Vec::new();
    }
    let mut info = InstructionInfoFactory::new();
    let mut instruction = Instruction::default();
    let mut work = vec![0];
    while let Some(at) = work.pop() {
        let Some(state) = states.get(&at).copied() else { continue };
        let mut decoder = Decoder::with_ip(64, &code[at..], at as u64, DecoderOptions::NONE);
        if !decoder.can_decode() {
            continue;
        }
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return Vec::new();
        }
        ends.insert(at, at + instruction.len());
        let after = state.after(&instruction, &mut info);
        let next = Some(instruction.next_ip());
        let target =
            (instruction.op0_kind() == OpKind::NearBranch64).then(|| instruction.near_branch_target());
        let successors = match instruction.flow_control() {
            FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => [next, None],
            FlowControl::ConditionalBranch => [next, target],
            FlowControl::UnconditionalBranch => [None, target],
            _ => [None, None],
        };
        for to in successors.into_iter().flatten().filter_map(|to| usize::try_from(to).ok()) {
            if to >= code.len() {
                continue;
            }
            let joined = states.get(&to).map_or(after, |known| known.meet(after));
            if states.insert(to, joined) != Some(joined) {
                work.push(to);
            }
        }
    }
    ends.into_iter().filter_map(|(at, end)| Some((at..end, *states.get(&at)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules by offset, where they change.
    fn rules(code: &[u8]) -> Vec<(usize, Option<Rule>)> {
        let mut rules: Vec<(usize, Option<Rule>)> = Vec::new();
        for (at, state) in states(code) {
            if rules.last().is_none_or(|last| last.1 != state.rule()) {
                rules.push((at.start, state.rule()));
            }
        }
        rules
    }

    fn by_sp(cfa_off: i32, saved: bool) -> Option<Rule> {
        Some(x86_64::sp_rule(cfa_off, saved.then_some(-16)))
    }

    fn by_fp() -> Option<Rule> {
        Some(x86_64::fp_rule(16, -16))
    }

    /// `runtime.nanotime1` in short, with both prologues: a switch that is skipped on g0, and the way back.
    #[test]
    fn a_switch_on_one_of_two_paths() {
        let body = [
            &[0x49, 0x89, 0xe4][..],   // mov %rsp,%r12
            &[0x75, 0x04],             // jne +4
            &[0x48, 0x8b, 0x62, 0x38], // mov 0x38(%rdx),%rsp
            &[0x48, 0x83, 0xec, 0x10], // sub $16,%rsp
            &[0x48, 0x83, 0xe4, 0xf0], // and $-16,%rsp
            &[0xff, 0xd0],             // call *%rax
            &[0x4c, 0x89, 0xe4],       // mov %r12,%rsp
        ]
        .concat();
        let new = [
            &[0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10][..],
            &body,
            &[0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3],
        ];
        let expected = [
            (0, by_sp(8, false)),
            (1, by_sp(16, false)),
            (4, by_sp(16, true)),
            (8, by_sp(32, true)),
            (17, by_fp()),
            (30, by_sp(32, true)),
            (34, by_sp(16, true)),
            (35, by_sp(8, false)),
        ];
        assert_eq!(rules(&new.concat()), expected);
        // sub $24,%rsp; mov %rbp,16(%rsp); lea 16(%rsp),%rbp; ...; mov 16(%rsp),%rbp; add $24,%rsp; ret
        let prologue = [0x48, 0x83, 0xec, 0x18, 0x48, 0x89, 0x6c, 0x24, 0x10, 0x48, 0x8d, 0x6c, 0x24, 0x10];
        let epilogue = [0x48, 0x8b, 0x6c, 0x24, 0x10, 0x48, 0x83, 0xc4, 0x18, 0xc3];
        let expected = [
            (0, by_sp(8, false)),
            (4, by_sp(32, false)),
            (14, by_sp(32, true)),
            (23, by_fp()),
            (36, by_sp(32, true)),
            (41, by_sp(32, false)),
            (45, by_sp(8, false)),
        ];
        assert_eq!(rules(&[&prologue[..], &body, &epilogue].concat()), expected);
    }

    /// `runtime.systemstack` before Go 1.21 in short: nothing tells the frame on the other stack.
    #[test]
    fn a_switch_without_a_frame() {
        // mov %rbx,%rsp; call *%rdi; mov 0x38(%rax),%rsp; ret
        let code = [0x48, 0x89, 0xdc, 0xff, 0xd7, 0x48, 0x8b, 0x60, 0x38, 0xc3];
        assert_eq!(rules(&code), [(0, by_sp(8, false)), (3, None), (9, by_sp(8, false))]);
        assert!(states(&code)[1].1.is_on_other_stack());
    }

    #[test]
    fn code_that_is_not_understood() {
        assert!(states(&[0x06]).is_empty());
        assert!(states(&[0x90; MAX_CODE + 1]).is_empty());
        // pop %rsp; a load of rbp before the switch loses the frame.
        assert_eq!(rules(&[0x5c, 0x90]).last(), Some(&(1, None)));
        let lost = [0x48, 0x31, 0xed, 0x48, 0x89, 0xdc, 0x90];
        let no_fp = Rule { fp: fp::UNDEFINED, ..x86_64::sp_rule(8, None) };
        assert_eq!(rules(&lost), [(0, by_sp(8, false)), (3, Some(no_fp)), (6, None)]);
    }
}
