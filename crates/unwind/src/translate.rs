//! Translates call frame information into the parts of a rule that are equal on all machines.

use crate::abi::Rule;
use crate::abi::cfa;
use crate::abi::fp;
use crate::abi::ra;
use crate::cfi::CfaRule;
use crate::cfi::RegisterRule;
use crate::expression::Base;
use crate::expression::Numbers;
use crate::expression::Value;
use crate::expression::evaluate;

/// A rule with the CFA only. `None`: it cannot be expressed.
pub(crate) fn canonical_frame_address(rule: &CfaRule<'_>, numbers: &Numbers) -> Option<Rule> {
    let (kind, flags, off, add) = match *rule {
        CfaRule::Unset => return None,
        CfaRule::Register(register, off) if register == numbers.stack_pointer => (cfa::SP, 0, off, 0),
        CfaRule::Register(register, off) if register == numbers.frame_pointer => (cfa::FP, 0, off, 0),
        CfaRule::Register(register, off) if register <= numbers.last => (cfa::REG, register as u8, off, 0),
        CfaRule::Register(..) => return None,
        CfaRule::Expression(expression) => match evaluate(expression, None, numbers)? {
            Value::Base(Base::StackPointer, off) => (cfa::SP, 0, off, 0),
            Value::Base(Base::FramePointer, off) => (cfa::FP, 0, off, 0),
            Value::Base(Base::Other(register), off) => (cfa::REG, register, off, 0),
            Value::Deref(Base::StackPointer, off, add) => (cfa::SP_DEREF, 0, off, add),
            Value::Deref(Base::FramePointer, off, add) => (cfa::FP_DEREF, 0, off, add),
            _ => return None,
        },
    };
    let (cfa_off, cfa_add) = (i32::try_from(off).ok()?, i16::try_from(add).ok()?);
    Some(Rule { cfa: kind, flags, cfa_off, cfa_add, ..Rule::NONE })
}

/// Kind and offset of a return address.
pub(crate) fn return_address(rule: &RegisterRule<'_>, numbers: &Numbers) -> Option<(u8, i64)> {
    Some(match *rule {
        RegisterRule::Offset(off) => (ra::CFA, off),
        RegisterRule::Register(register) if register <= numbers.last => (ra::REG, register as i64),
        RegisterRule::Expression(expression) => match evaluate(expression, Some(Base::Cfa), numbers)? {
            Value::Base(Base::Cfa, off) => (ra::CFA, off),
            Value::Base(Base::StackPointer, off) => (ra::SP, off),
            Value::Base(Base::FramePointer, off) => (ra::FP, off),
            _ => return None,
        },
        _ => return None,
    })
}

/// Kind and offset of the caller's frame pointer. If it cannot be expressed it is unknown, which affects only callers
/// that need it.
pub(crate) fn frame_pointer(rule: &RegisterRule<'_>, numbers: &Numbers) -> (u8, i32) {
    let (kind, off) = match *rule {
        // Every function preserves it (psABI, AAPCS64): no rule means unchanged.
        RegisterRule::Unset | RegisterRule::SameValue => (fp::SAME, 0),
        RegisterRule::Register(register) if register == numbers.frame_pointer => (fp::SAME, 0),
        RegisterRule::Offset(off) => (fp::CFA, off),
        RegisterRule::Expression(expression) => match evaluate(expression, Some(Base::Cfa), numbers) {
            Some(Value::Base(Base::Cfa, off)) => (fp::CFA, off),
            Some(Value::Base(Base::StackPointer, off)) => (fp::SP, off),
            Some(Value::Base(Base::FramePointer, off)) => (fp::FP, off),
            _ => (fp::UNDEFINED, 0),
        },
        _ => (fp::UNDEFINED, 0),
    };
    i32::try_from(off).map_or((fp::UNDEFINED, 0), |off| (kind, off))
}
