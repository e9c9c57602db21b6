//! DWARF expressions whose value a rule can express.

use crate::reader::Reader;

/// Limit of the size of an expression in bytes.
pub(crate) const MAX_EXPRESSION: usize = 128;

/// DWARF numbers of the registers in rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    pub frame_pointer: u64,
    pub stack_pointer: u64,
    /// The last general register.
    pub last: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    StackPointer,
    FramePointer,
    Other(u8),
    Cfa,
}

/// The value of an expression, as a rule can express it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Constant(i64),
    /// base + n
    Base(Base, i64),
    /// *(base + n) + m
    Deref(Base, i64, i64),
}

/// Evaluates a DWARF expression symbolically. `None`: it is malformed, longer than those of compilers (it is evaluated
/// for every row), or not one of the forms of [`Value`].
pub(crate) fn evaluate(expression: &[u8], initial: Option<Base>, numbers: &Numbers) -> Option<Value> {
    const DEPTH: usize = 4;
    if expression.len() > MAX_EXPRESSION {
        return None;
    }
    let mut stack = [Value::Constant(0); DEPTH];
    let mut depth = 0usize;
    if let Some(base) = initial {
        stack[0] = Value::Base(base, 0);
        depth = 1;
    }
    let mut r = Reader::at(expression, 0);
    while !r.is_empty() {
        let opcode = r.u8()?;
        let pushed = match opcode {
            0x30..=0x4f => Value::Constant(i64::from(opcode - 0x30)),
            0x08 => Value::Constant(i64::from(r.u8()?)),
            0x09 => Value::Constant(i64::from(r.u8()? as i8)),
            0x0a => Value::Constant(i64::from(r.u16()?)),
            0x0b => Value::Constant(i64::from(r.u16()? as i16)),
            0x0c => Value::Constant(i64::from(r.u32()?)),
            0x0d => Value::Constant(i64::from(r.u32()? as i32)),
            0x0e | 0x0f => Value::Constant(r.u64()? as i64),
            0x10 => Value::Constant(i64::try_from(r.uleb()?).ok()?),
            0x11 => Value::Constant(r.sleb()?),
            0x70..=0x8f => Value::Base(numbers.base(u64::from(opcode - 0x70))?, r.sleb()?),
            0x92 => Value::Base(numbers.base(r.uleb()?)?, r.sleb()?),
            0x96 => continue,
            _ => {
                let top = depth.checked_sub(1)?;
                match opcode {
                    0x06 => {
                        let Value::Base(base, off) = stack[top] else { return None };
                        stack[top] = Value::Deref(base, off, 0);
                    }
                    0x23 => stack[top] = stack[top].plus(i64::try_from(r.uleb()?).ok()?)?,
                    0x22 | 0x1c => {
                        let below = top.checked_sub(1)?;
                        stack[below] = match (stack[below], stack[top], opcode) {
                            (value, Value::Constant(n), 0x22) | (Value::Constant(n), value, 0x22) => {
                                value.plus(n)?
                            }
                            (value, Value::Constant(n), _) => value.plus(n.checked_neg()?)?,
                            _ => return None,
                        };
                        depth = top;
                    }
                    _ => return None,
                }
                continue;
            }
        };
        *stack.get_mut(depth)? = pushed;
        depth += 1;
    }
    Some(stack[depth.checked_sub(1)?])
}

impl Numbers {
    fn base(&self, register: u64) -> Option<Base> {
        match register {
            _ if register == self.stack_pointer => Some(Base::StackPointer),
            _ if register == self.frame_pointer => Some(Base::FramePointer),
            _ if register <= self.last => Some(Base::Other(register as u8)),
            _ => None,
        }
    }
}

impl Value {
    fn plus(self, n: i64) -> Option<Self> {
        Some(match self {
            Self::Constant(value) => Self::Constant(value.checked_add(n)?),
            Self::Base(base, off) => Self::Base(base, off.checked_add(n)?),
            Self::Deref(base, off, add) => Self::Deref(base, off, add.checked_add(n)?),
        })
    }
}
