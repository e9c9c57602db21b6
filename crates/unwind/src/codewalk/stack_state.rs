//! The state of the stack before an instruction, and its change by instructions.

use iced_x86::Instruction;
use iced_x86::InstructionInfoFactory;
use iced_x86::Mnemonic;
use iced_x86::OpKind;
use iced_x86::Register;

use crate::abi::Rule;
use crate::instructions;
use crate::x86_64;

/// Above the largest frame in C libraries.
const MAX_FRAME: i64 = 1 << 24;

/// The state before an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StackState {
    /// CFA = sp + this; unknown after an alignment of sp or a dynamic allocation.
    sp: Option<i64>,
    /// CFA = rbp + this, while rbp is a frame pointer.
    fp: Option<i64>,
    /// The caller's rbp is saved at CFA + this.
    saved: Option<i64>,
    /// rbp still (or again) holds the caller's value.
    intact: bool,
    /// The outermost frame; nothing else matters.
    root: bool,
}

impl StackState {
    /// At a function's first instruction.
    pub(super) const ENTRY: Self = Self { sp: Some(8), fp: None, saved: None, intact: true, root: false };
    const ROOT: Self = Self { sp: None, fp: None, saved: None, intact: false, root: true };

    /// Whether the state equals that at entry, as required before a return or a jump to another function.
    pub(super) fn is_balanced(&self) -> bool {
        self.root || (self.sp == Some(8) && self.intact)
    }

    /// Whether it is the outermost frame.
    pub(super) fn is_root(&self) -> bool {
        self.root
    }

    /// Whether rbp locates the frame, and the usual slot holds the caller's.
    fn has_frame_pointer(&self) -> bool {
        self.fp == Some(16) && self.saved == Some(-16)
    }

    /// Whether an instruction reads or writes the return address or something beyond it, by sp.
    pub(super) fn is_callers_frame(&self, instruction: &Instruction) -> bool {
        instruction.memory_base() == Register::RSP
            && self.sp.zip(displacement(instruction)).is_none_or(|(sp, off)| off >= sp - 8)
    }

    /// The common knowledge of two joining paths. `None`: they contradict each other.
    pub(super) fn meet(self, other: Self) -> Option<Self> {
        let intact = self.intact && other.intact;
        let saved = if self.saved == other.saved { self.saved } else { None };
        let fp = if self.fp == other.fp { self.fp } else { None };
        let sp = if self.sp == other.sp { self.sp } else { None };
        let frame_found = sp.is_some() || fp.is_some() || self.root;
        let fp_found = intact || saved.is_some() || self.root;
        (self.root == other.root && frame_found && fp_found).then_some(Self {
            sp,
            fp,
            saved,
            intact,
            root: self.root,
        })
    }

    /// The rule for this state; `None`: it cannot be expressed.
    pub(super) fn rule(&self) -> Option<Rule> {
        if self.root {
            return Some(Rule::ROOT);
        }
        let saved = self.saved.and_then(|off| i32::try_from(off).ok());
        let fp_known = saved.is_some() || self.intact;
        match (self.sp, self.fp) {
            // The usual frame. Its rule holds even if a callee pops its arguments, which changes sp unnoticed.
            (_, Some(16)) if saved == Some(-16) => Some(x86_64::fp_rule(16, -16)),
            // Below 8 the return address has been popped.
            (Some(off), _) if off >= 8 && fp_known => Some(x86_64::sp_rule(i32::try_from(off).ok()?, saved)),
            (None, Some(off)) => Some(x86_64::fp_rule(i32::try_from(off).ok()?, saved?)),
            _ => None,
        }
    }

    /// The state after an instruction that is not a branch. `None`: not understood.
    pub(super) fn after(
        mut self,
        instruction: &Instruction,
        info: &mut InstructionInfoFactory,
    ) -> Option<Self> {
        if self.root {
            return Some(self);
        }
        let plain_operand = |n| instruction.op_kind(n) == OpKind::Register;
        let is = |n, register| plain_operand(n) && instruction.op_register(n) == register;
        let immediate = || instruction.immediate(1) as i64;
        match instruction.mnemonic() {
            Mnemonic::Push | Mnemonic::Pushfq => {
                self.grow(i64::from(-instruction.stack_pointer_increment()))?;
                if is(0, Register::RBP) && self.intact && self.saved.is_none() {
                    self.saved = Some(-self.sp?);
                }
            }
            Mnemonic::Pop | Mnemonic::Popfq => {
                if is(0, Register::RSP) {
                    return None;
                }
                if is(0, Register::RBP) {
                    self.restore_from(-self.sp?);
                }
                self.grow(i64::from(-instruction.stack_pointer_increment()))?;
            }
            Mnemonic::Sub if is(0, Register::RSP) => match instruction.op1_kind() {
                OpKind::Register | OpKind::Memory => self.lose_sp()?,
                _ => self.grow(immediate())?,
            },
            Mnemonic::Add if is(0, Register::RSP) => match instruction.op1_kind() {
                OpKind::Register | OpKind::Memory => return None,
                _ => self.grow(immediate().checked_neg()?)?,
            },
            Mnemonic::And if is(0, Register::RSP) => self.lose_sp()?,
            Mnemonic::Lea if is(0, Register::RSP) => {
                let off = displacement(instruction)?;
                match instruction.memory_base() {
                    Register::RSP => self.grow(off.checked_neg()?)?,
                    Register::RBP => self.set_sp(self.fp?.checked_sub(off)?)?,
                    _ => return None,
                }
            }
            Mnemonic::Lea if is(0, Register::RBP) && instruction.memory_base() == Register::RSP => {
                let off = displacement(instruction);
                self.overwrite_fp()?;
                self.fp = self.sp.zip(off).and_then(|(sp, off)| sp.checked_sub(off));
            }
            Mnemonic::Mov if is(0, Register::RBP) && is(1, Register::RSP) => {
                self.overwrite_fp()?;
                self.fp = self.sp;
            }
            Mnemonic::Mov if is(0, Register::RSP) && is(1, Register::RBP) => self.set_sp(self.fp?)?,
            // What was sp before an allocation; rbp locates the frame.
            Mnemonic::Mov if is(0, Register::RSP) && self.has_frame_pointer() => self.lose_sp()?,
            Mnemonic::Mov if is(1, Register::RBP) && instruction.memory_base() == Register::RSP => {
                if let (Some(off), Some(sp), true, None) =
                    (displacement(instruction), self.sp, self.intact, self.saved)
                {
                    self.saved = Some(off.checked_sub(sp)?);
                }
            }
            Mnemonic::Mov if is(0, Register::RBP) && instruction.memory_base() == Register::RSP => {
                let slot = displacement(instruction).zip(self.sp).and_then(|(off, sp)| off.checked_sub(sp));
                self.overwrite_fp()?;
                if let Some(slot) = slot {
                    self.restore_from(slot);
                }
            }
            Mnemonic::Leave => {
                self.set_sp(self.fp?)?;
                self.restore_from(-self.sp?);
                self.grow(-8)?;
            }
            Mnemonic::Xor if clears_fp(instruction) && self.intact && self.saved.is_none() => {
                return Some(Self::ROOT);
            }
            _ if !instructions::may_change_frame(instruction) => {}
            _ => {
                if instructions::writes_stack_pointer(info, instruction) {
                    return None;
                }
                if instructions::writes(info, instruction, Register::RBP) {
                    self.overwrite_fp()?;
                }
            }
        }
        Some(self)
    }

    /// sp decreases by `bytes` (increases, if negative). A slot below the new sp no longer holds the saved rbp.
    fn grow(&mut self, bytes: i64) -> Option<()> {
        match self.sp {
            Some(sp) => self.set_sp(sp.checked_add(bytes)?),
            // Pushes below an unknown sp do not affect the rule.
            None => self.fp.map(|_| ()),
        }
    }

    fn set_sp(&mut self, sp: i64) -> Option<()> {
        self.sp = (0..MAX_FRAME).contains(&sp).then_some(sp);
        if self.saved.is_some_and(|off| off < -sp) {
            self.saved = None;
        }
        self.sp.map(|_| ())
    }

    fn lose_sp(&mut self) -> Option<()> {
        self.sp = None;
        self.fp.map(|_| ())
    }

    /// rbp gets another value.
    fn overwrite_fp(&mut self) -> Option<()> {
        self.intact = false;
        self.fp = None;
        // Without sp, only rbp located the frame.
        self.sp.map(|_| ())
    }

    fn restore_from(&mut self, slot: i64) {
        self.intact = self.saved == Some(slot);
        self.fp = None;
    }
}

/// The displacement of a memory operand without index or segment.
fn displacement(instruction: &Instruction) -> Option<i64> {
    let plain =
        instruction.memory_index() == Register::None && instruction.segment_prefix() == Register::None;
    plain.then_some(instruction.memory_displacement64() as i64)
}

fn clears_fp(instruction: &Instruction) -> bool {
    let (one, other) = (instruction.op0_register(), instruction.op1_register());
    one == other && instruction.op1_kind() == OpKind::Register && matches!(one, Register::EBP | Register::RBP)
}
