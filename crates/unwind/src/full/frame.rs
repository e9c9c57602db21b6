//! A frame with its known registers.

use super::native::FRAME_POINTER;
use super::native::LINK_REGISTER;
use super::native::PC;
use super::native::PERF_NUMBERS;
use super::native::REGISTERS;
use super::native::STACK_POINTER;
use super::native::code_address;
use crate::Memory;
use crate::Registers;
use crate::Rule;
use crate::StepError;
use crate::abi::ENTRY;
use crate::abi::SIGNAL;
use crate::abi::START;
use crate::abi::cfa;
use crate::abi::fp;
use crate::abi::ra;
use crate::walker;

/// The known values of the general registers by DWARF number, and the pc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownRegisters {
    values: [Option<u64>; REGISTERS + 1],
}

impl KnownRegisters {
    /// All registers are known: those of an interrupted thread.
    #[must_use]
    pub fn all(general: &[u64; REGISTERS], pc: u64) -> Self {
        let mut registers = Self::unknown(pc);
        for (value, known) in registers.values.iter_mut().zip(general) {
            *value = Some(*known);
        }
        registers
    }

    /// Only the pc is known.
    #[must_use]
    pub fn unknown(pc: u64) -> Self {
        let mut values = [None; REGISTERS + 1];
        values[usize::from(PC)] = Some(pc);
        Self { values }
    }

    /// The same with another pc.
    pub(super) fn at(mut self, pc: u64) -> Self {
        self.values[usize::from(PC)] = Some(pc);
        self
    }

    /// The value of a register, if known.
    #[must_use]
    pub fn get(&self, register: u8) -> Option<u64> {
        self.values.get(usize::from(register)).copied().flatten()
    }

    /// Sets a general register. Other numbers are ignored.
    pub fn set(&mut self, register: u8, value: Option<u64>) {
        if register < PC {
            self.values[usize::from(register)] = value;
        }
    }
}

/// A frame: its location and its known registers. All addresses are run-time addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Instruction pointer.
    pub pc: u64,
    /// The registers; the last one is the pc.
    pub registers: KnownRegisters,
    /// Look the pc up itself, not pc − 1: a leaf, or a frame that a signal interrupted.
    pub exact: bool,
}

impl Frame {
    /// The innermost frame of an interrupted thread, from its registers by DWARF number.
    #[must_use]
    pub fn leaf(general: &[u64; REGISTERS], pc: u64) -> Self {
        Self { pc, registers: KnownRegisters::all(general, pc), exact: true }
    }

    /// The innermost frame of a sample with `PERF_SAMPLE_REGS_USER`: `values` are those of the bits in `mask`, in their order. Without a pc it is at
    /// address 0.
    #[must_use]
    pub fn of_sample(mask: u64, values: impl Iterator<Item = u64>) -> Self {
        let bits = (0..u64::BITS).filter(|bit| mask >> bit & 1 == 1);
        let mut registers = KnownRegisters::unknown(0);
        let mut pc = 0;
        for (bit, value) in bits.zip(values) {
            match PERF_NUMBERS.get(bit as usize).copied().flatten() {
                Some(PC) => pc = value,
                Some(number) => registers.set(number, Some(value)),
                None => {}
            }
        }
        Self { pc, registers: registers.at(pc), exact: true }
    }

    /// A caller with a known stack pointer and possibly a known frame pointer.
    #[must_use]
    pub fn caller(pc: u64, sp: u64, fp: Option<u64>) -> Self {
        let mut registers = KnownRegisters::unknown(pc);
        registers.set(STACK_POINTER, Some(sp));
        registers.set(FRAME_POINTER, fp);
        Self { pc, registers, exact: false }
    }

    /// The caller by a frame record {frame pointer, return address} at `record`. If the record need not be at the end
    /// of the frame, the caller's stack pointer is unknown.
    #[must_use]
    pub fn caller_by_record(record: u64, fp: u64, return_address: u64) -> Self {
        let mut caller = Self::caller(code_address(return_address), record.wrapping_add(16), Some(fp));
        if LINK_REGISTER.is_some() {
            caller.registers.set(STACK_POINTER, None);
        }
        caller
    }

    /// The caller by the frame record that the frame pointer names.
    ///
    /// # Errors
    /// [`StepError::ZeroFrame`] at the end of the chain, which is no proof that the stack begins there; [`StepError::UnsupportedRule`] if the frame pointer is unknown, [`StepError::NotAbove`] if it names
    /// no record above this frame, [`StepError::Fault`] if the record cannot be read.
    pub fn by_frame_pointer(&self, memory: &impl Memory) -> Result<Self, StepError> {
        let fp = self.fp().ok_or(StepError::UnsupportedRule)?;
        if fp == 0 {
            return Err(StepError::ZeroFrame);
        }
        if fp % 8 != 0 || self.sp().is_some_and(|sp| fp < sp) {
            return Err(StepError::NotAbove(fp));
        }
        let word = |address: u64| memory.read_u64(address).ok_or(StepError::Fault(address));
        let saved = word(fp)?;
        match word(fp.wrapping_add(8))? {
            0 => Err(StepError::ZeroFrame),
            pc => Ok(Self::caller_by_record(fp, saved, pc)),
        }
    }

    /// The stack pointer, if known.
    #[must_use]
    pub fn sp(&self) -> Option<u64> {
        self.registers.get(STACK_POINTER)
    }

    /// The frame pointer, if known.
    #[must_use]
    pub fn fp(&self) -> Option<u64> {
        self.registers.get(FRAME_POINTER)
    }

    /// The address to look up the frame's code.
    #[must_use]
    pub fn lookup_address(&self) -> u64 {
        if self.exact { self.pc } else { self.pc.wrapping_sub(1) }
    }

    /// The caller by a compact rule. Compact rules contain only the stack pointer and the frame pointer. The function
    /// may have changed the other registers, which are unknown from here on.
    ///
    /// # Errors
    /// Those of [`crate::apply`]; [`StepError::UnsupportedRule`] also if the rule needs an unknown register;
    /// [`StepError::NotAbove`].
    pub fn apply(&self, rule: &Rule, memory: &impl Memory) -> Result<Self, StepError> {
        if rule.ra == ra::UNDEFINED {
            return Err(StepError::Root);
        }
        if rule.flags & (START | ENTRY) == START && !self.exact {
            return Err(StepError::NotCalled);
        }
        let needs_fp = matches!(rule.cfa, cfa::FP | cfa::FP_DEREF) || rule.ra == ra::FP || rule.fp == fp::FP;
        let needs_sp =
            matches!(rule.cfa, cfa::SP | cfa::SP_DEREF | cfa::PLT) || rule.ra == ra::SP || rule.fp == fp::SP;
        if needs_sp && self.sp().is_none() || needs_fp && self.fp().is_none() {
            return Err(StepError::UnsupportedRule);
        }
        let sp = self.sp().unwrap_or(0);
        let before = Registers { pc: self.pc, sp, fp: self.fp().unwrap_or(0), exact: self.exact };
        let next = walker::apply(rule, &before, |number| self.registers.get(number), memory)?;
        // A function may run on a stack of its own: a CFA that does not follow from the stack pointer lies anywhere. If
        // the return address is in a register, the frame may take no stack.
        let moves = match rule.cfa {
            cfa::SP_DEREF | cfa::FP_DEREF => true,
            cfa::FP | cfa::REG => next.sp != sp || rule.ra == ra::REG,
            _ => next.sp > sp || next.sp == sp && rule.ra == ra::REG,
        };
        if !moves {
            return Err(StepError::NotAbove(next.sp));
        }
        let fp = match rule.fp {
            fp::SAME => self.fp(),
            fp::CFA | fp::SP | fp::FP => Some(next.fp),
            _ => None,
        };
        let mut caller = Self { exact: next.exact, ..Self::caller(code_address(next.pc), next.sp, fp) };
        if let Some(link) = LINK_REGISTER
            && rule.flags & SIGNAL != 0
            && rule.fp == fp::SP
        {
            // The interrupted function may not have saved the link register. The signal frame has it after the frame
            // pointer.
            let at = sp.wrapping_add_signed(i64::from(rule.fp_off) + 8);
            caller.registers.set(link, memory.read_u64(at));
        }
        Ok(caller)
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    fn memory(address: u64) -> Option<u64> {
        address.is_multiple_of(8).then_some(address + 1)
    }

    #[test]
    fn compact_rules_make_other_registers_unknown() {
        let leaf = Frame::leaf(&std::array::from_fn(|i| 0x1000 + 0x100 * i as u64), 0x40);
        let rule = Rule { cfa: cfa::SP, cfa_off: 16, ra_off: -8, ..Rule::NONE };
        let next = leaf.apply(&rule, &memory).unwrap();
        assert_eq!((next.pc, next.sp(), next.fp(), next.exact), (0x1709, Some(0x1710), Some(0x1600), false));
        assert_eq!((0..16).filter(|&i| next.registers.get(i).is_some()).collect::<Vec<_>>(), [6, 7]);
        assert_eq!(next.registers.get(16), Some(0x1709));
        let by_rbx = Rule { cfa: cfa::REG, flags: 3, cfa_off: 0x1000, ra_off: -8, ..Rule::NONE };
        assert_eq!(leaf.apply(&by_rbx, &memory).map(|next| next.sp()), Ok(Some(0x2300)));
        assert_eq!(next.apply(&by_rbx, &memory), Err(StepError::UnsupportedRule));
    }

    #[test]
    fn an_unknown_frame_pointer_stays_unknown() {
        let frame = Frame::caller(0x40, 0x1000, Some(0x1100));
        let lost = frame
            .apply(&Rule { cfa: cfa::SP, cfa_off: 16, ra_off: -8, fp: fp::UNDEFINED, ..Rule::NONE }, &memory);
        let lost = lost.unwrap();
        assert_eq!(lost.fp(), None);
        let by_fp = Rule { cfa: cfa::FP, cfa_off: 16, ra_off: -8, ..Rule::NONE };
        assert_eq!(lost.apply(&by_fp, &memory), Err(StepError::UnsupportedRule));
        assert!(frame.apply(&by_fp, &memory).is_ok());
        let down = Rule { cfa: cfa::SP, cfa_off: 0, ra_off: -8, ..Rule::NONE };
        assert_eq!(frame.apply(&down, &memory), Err(StepError::NotAbove(0x1000)));
        // A function on a stack of its own, above that of its caller.
        let own_stack = Frame::caller(0x40, 0x9000, Some(0x1100));
        assert_eq!(own_stack.apply(&by_fp, &memory).map(|next| next.sp()), Ok(Some(0x1110)));
        let own_caller = Frame::caller(0x40, 0x1110, Some(0x1100));
        assert_eq!(own_caller.apply(&by_fp, &memory), Err(StepError::NotAbove(0x1110)));
        assert_eq!(lost.apply(&Rule::ROOT, &memory), Err(StepError::Root));
    }

    #[test]
    fn registers_come_in_the_order_of_their_bits() {
        let frame = Frame::of_sample(1 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 16, 10..);
        assert_eq!((frame.pc, frame.sp(), frame.fp(), frame.exact), (13, Some(12), Some(11), true));
        // ax, r8 behind the flags, which no rule needs; bx was not asked for.
        let of = |number| frame.registers.get(number);
        assert_eq!((of(0), of(8), of(3), of(16)), (Some(10), Some(15), None, Some(13)));
        assert_eq!(Frame::of_sample(1 << 63, 1..).pc, 0);
    }

    #[test]
    fn frame_pointers_lead_upwards_to_their_end() {
        let words = [(0x1000, 0x1020), (0x1008, 77), (0x1020, 0), (0x1028, 88)];
        let memory = |address: u64| words.iter().find(|(at, _)| *at == address).map(|(_, word)| *word);
        let caller = Frame::caller(5, 0xff0, Some(0x1000)).by_frame_pointer(&memory).unwrap();
        assert_eq!(
            (caller.pc, caller.sp(), caller.fp(), caller.exact),
            (77, Some(0x1010), Some(0x1020), false)
        );
        let outermost = caller.by_frame_pointer(&memory).unwrap();
        assert_eq!(outermost.by_frame_pointer(&memory), Err(StepError::ZeroFrame));
        let broken = |sp, fp| Frame::caller(5, sp, fp).by_frame_pointer(&memory).unwrap_err();
        assert_eq!(broken(0xff0, None), StepError::UnsupportedRule);
        assert_eq!(broken(0xff0, Some(0x1001)), StepError::NotAbove(0x1001));
        assert_eq!(broken(0x1008, Some(0x1000)), StepError::NotAbove(0x1000));
        assert_eq!(broken(0xff0, Some(0x2000)), StepError::Fault(0x2000));
    }
}
