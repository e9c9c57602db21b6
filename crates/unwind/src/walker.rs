//! The in-kernel walker's semantics in Rust, for tests and offline use.

use crate::abi::ENTRY;
use crate::abi::REGISTER_MASK;
use crate::abi::Rule;
use crate::abi::SIGNAL;
use crate::abi::START;
use crate::abi::cfa;
use crate::abi::fp;
use crate::abi::ra;
use crate::table::Table;

/// The memory of the walked thread.
pub trait Memory {
    /// The 8 bytes at a run-time address, if readable.
    fn read_u64(&self, avma: u64) -> Option<u64>;
}

impl<F: Fn(u64) -> Option<u64>> Memory for F {
    fn read_u64(&self, avma: u64) -> Option<u64> {
        self(avma)
    }
}

/// Registers of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Instruction pointer, as link-time address of its table.
    pub pc: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer.
    pub fp: u64,
    /// Look the pc up itself, not pc − 1: a leaf, or a frame that a signal interrupted.
    pub exact: bool,
}

/// Why a step has no caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// This is the outermost frame.
    #[error("root of the stack")]
    Root,
    /// The frame pointer or the return address is 0 where no stack begins.
    #[error("a frame pointer or return address of 0 where no stack begins")]
    ZeroFrame,
    /// The return address is the first byte of a function, and no call ends there: the frame that has it is the outermost.
    #[error("no call returns to this address")]
    NotCalled,
    /// No row covers the pc.
    #[error("no row covers {0:#x}")]
    NoRow(u64),
    /// The rule is only valid in the innermost frame, or is not supported.
    #[error("the walker does not support the rule")]
    UnsupportedRule,
    /// The frame is on another stack, and the step needs more than registers and stack words.
    #[error("the caller is on another stack")]
    StackSwitch,
    /// A word of the stack could not be read.
    #[error("unreadable stack at {0:#x}")]
    Fault(u64),
    /// The caller's frame would be this one or, by a rule that needs the stack pointer, below it.
    #[error("the caller's stack pointer {0:#x} is not above the frame's")]
    NotAbove(u64),
}

/// The caller of a frame.
///
/// `register` returns the value of a register by its DWARF number. Only the innermost frame has these values.
///
/// # Errors
/// The causes of a walk's end.
pub fn step(
    table: &Table,
    frame: &Registers,
    register: impl Fn(u8) -> Option<u64>,
    memory: &impl Memory,
) -> Result<Registers, StepError> {
    let svma = if frame.exact { frame.pc } else { frame.pc.wrapping_sub(1) };
    let rule = table.lookup(svma).ok_or(StepError::NoRow(svma))?;
    apply(rule, frame, register, memory)
}

/// Applies one rule.
///
/// # Errors
/// As [`step`].
pub fn apply(
    rule: &Rule,
    frame: &Registers,
    register: impl Fn(u8) -> Option<u64>,
    memory: &impl Memory,
) -> Result<Registers, StepError> {
    let read = |avma| memory.read_u64(avma).ok_or(StepError::Fault(avma));
    let plus = |base: u64, offset: i64| base.wrapping_add_signed(offset);
    if rule.ra == ra::UNDEFINED {
        return Err(StepError::Root);
    }
    if rule.flags & (START | ENTRY) == START && !frame.exact {
        return Err(StepError::NotCalled);
    }
    let off = i64::from(rule.cfa_off);
    let cfa = match rule.cfa {
        cfa::SP => plus(frame.sp, off),
        cfa::FP => plus(frame.fp, off),
        cfa::REG => plus(register(rule.flags & REGISTER_MASK).ok_or(StepError::UnsupportedRule)?, off),
        cfa::SP_DEREF => plus(read(plus(frame.sp, off))?, i64::from(rule.cfa_add)),
        cfa::FP_DEREF => plus(read(plus(frame.fp, off))?, i64::from(rule.cfa_add)),
        cfa::PLT => {
            let pushed = (frame.pc & 15) as i64 >= i64::from(rule.cfa_add);
            plus(frame.sp, off + if pushed { 8 } else { 0 })
        }
        cfa::SWITCH..=cfa::GO_RESUME => return Err(StepError::StackSwitch),
        _ => return Err(StepError::UnsupportedRule),
    };
    let fp_off = i64::from(rule.fp_off);
    let caller_fp = match rule.fp {
        fp::SAME => frame.fp,
        fp::CFA => read(plus(cfa, fp_off))?,
        fp::SP => read(plus(frame.sp, fp_off))?,
        fp::FP => read(plus(frame.fp, fp_off))?,
        _ => 0,
    };
    let ra_off = i64::from(rule.ra_off);
    let pc = match rule.ra {
        ra::CFA => read(plus(cfa, ra_off))?,
        ra::SP => read(plus(frame.sp, ra_off))?,
        ra::FP => read(plus(frame.fp, ra_off))?,
        ra::REG => {
            let number = u8::try_from(rule.ra_off).map_err(|_| StepError::UnsupportedRule)?;
            register(number).ok_or(StepError::UnsupportedRule)?
        }
        _ => return Err(StepError::UnsupportedRule),
    };
    if pc == 0 {
        return Err(if rule.flags & (START | ENTRY) == ENTRY {
            StepError::Root
        } else {
            StepError::ZeroFrame
        });
    }
    Ok(Registers { pc, sp: cfa, fp: caller_fp, exact: rule.flags & SIGNAL != 0 })
}
