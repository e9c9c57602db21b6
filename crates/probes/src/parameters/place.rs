//! From the compiler's description of a place to a register, to memory behind one, or to a number.

use gimli::{AttributeValue, Expression, Operation, constants as dw};

use super::abi::{self, Passed};
use super::debug_info::{DebugInfo, Die, Slice};
use super::error::ParameterError;
use super::in_function::InFunction;

/// Longer expressions are refused.
const MAX_OPERATIONS: usize = 8;
/// The kernel's names of registers by their numbers in DWARF.
const REGISTERS: [&str; 16] =
    ["ax", "dx", "cx", "bx", "si", "di", "bp", "sp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];
/// The number of the frame pointer, and the distance from where it points to the canonical frame address.
const FRAME_POINTER: u16 = 6;
const CFA_BEHIND_FRAME_POINTER: i64 = 16;
/// The return address lies between the stack pointer at the entry and the canonical frame address.
const CFA_BEHIND_STACK_POINTER: i64 = 8;

/// Where something is, in the kernel's language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// This text is the value.
    Value(String),
    /// In memory, so far behind an address.
    Memory { base: String, offset: i64 },
}

/// The way so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub place: Place,
    /// The lowest bit and the number of bits, of a member that is a part of a word.
    pub bits: Option<(u64, u64)>,
}

impl Place {
    /// The value there.
    pub fn text(&self) -> String {
        match self {
            Self::Value(text) => text.clone(),
            Self::Memory { base, offset } => format!("{offset:+}({base})"),
        }
    }
}

impl Way {
    /// Goes to a member of the structure in memory.
    pub fn enter(&mut self, more: i64, bits: Option<(u64, u64)>) -> Result<(), ParameterError> {
        if let Place::Memory { offset, .. } = &mut self.place {
            *offset = offset.checked_add(more).ok_or(ParameterError::damaged("an offset is out of range"))?;
        }
        self.bits = bits;
        Ok(())
    }
}

/// The kernel's name of a register.
fn register(number: u16) -> Result<String, ParameterError> {
    let name = REGISTERS.get(usize::from(number)).map(|name| format!("%{name}"));
    name.ok_or_else(|| ParameterError::Unsupported("a number in a floating-point register".to_owned()))
}

/// Where a parameter is. None: nowhere. `number`: how many parameters stand before it.
pub(super) fn of_parameter<'a>(
    info: &DebugInfo<'a>,
    function: &Die<'a>,
    parameter: &Die<'a>,
    number: usize,
    at: InFunction,
) -> Result<Option<Place>, ParameterError> {
    let Some(expression) = info.location(parameter, at.at)? else { return Ok(None) };
    let operations = operations(expression, parameter)?;
    Ok(Some(match operations.as_slice() {
        [] => return Ok(None),
        [Operation::Register { register: number }] => Place::Value(register(number.0)?),
        [Operation::EntryValue { expression }, Operation::StackValue] if at.is_entry => {
            match self::operations(Expression(*expression), parameter)?.as_slice() {
                [Operation::Register { register: number }] => Place::Value(register(number.0)?),
                _ => return Err(ParameterError::Unsupported("a value that is computed".to_owned())),
            }
        }
        [
            Operation::RegisterOffset { register: number, offset: 0, .. },
            narrowed @ ..,
            Operation::StackValue,
        ] if is_narrowed(narrowed) => Place::Value(register(number.0)?),
        [Operation::RegisterOffset { register: number, offset, .. }] => {
            Place::Memory { base: register(number.0)?, offset: *offset }
        }
        [Operation::FrameOffset { offset }] => in_frame(info, function, number, *offset, at)?,
        [Operation::CallFrameCFA] if at.is_entry => {
            Place::Memory { base: "%sp".to_owned(), offset: CFA_BEHIND_STACK_POINTER }
        }
        [Operation::UnsignedConstant { value }, Operation::StackValue] => Place::Value(format!("\\{value}")),
        [Operation::SignedConstant { value }, Operation::StackValue] => Place::Value(format!("\\{value}")),
        several if several.iter().any(|one| matches!(one, Operation::Piece { .. })) => {
            return Err(ParameterError::Unsupported("a value in several pieces".to_owned()));
        }
        [Operation::ImplicitPointer { .. }] => return Ok(None),
        _ => return Err(ParameterError::Unsupported("a value that is computed".to_owned())),
    }))
}

/// Whether these operations only take the lowest bits of a register: those of the parameter's type.
fn is_narrowed(mut operations: &[Operation<Slice<'_>>]) -> bool {
    loop {
        operations = match operations {
            [] => return true,
            [Operation::Convert { .. }, rest @ ..] => rest,
            [Operation::UnsignedConstant { value }, Operation::And, rest @ ..]
                if (value & value.wrapping_add(1)) == 0 =>
            {
                rest
            }
            _ => return false,
        }
    }
}

/// A parameter that is described by the frame of its function.
fn in_frame<'a>(
    info: &DebugInfo<'a>,
    function: &Die<'a>,
    number: usize,
    offset: i64,
    at: InFunction,
) -> Result<Place, ParameterError> {
    let base = info.entry(function)?.attr_value(dw::DW_AT_frame_base);
    let base = match base {
        Some(AttributeValue::Exprloc(expression)) => operations(expression, function)?,
        _ => Vec::new(),
    };
    let from_cfa = match base.as_slice() {
        [Operation::Register { register }] if register.0 == FRAME_POINTER && !at.is_entry => {
            return Ok(Place::Memory { base: self::register(FRAME_POINTER)?, offset });
        }
        _ if !at.is_entry => {
            let reason = "a place in a frame that is known at the entry of the function only; probe that";
            return Err(ParameterError::Unsupported(reason.to_owned()));
        }
        [Operation::CallFrameCFA] => Some(offset),
        [Operation::Register { register }] if register.0 == FRAME_POINTER => {
            Some(offset.saturating_sub(CFA_BEHIND_FRAME_POINTER))
        }
        // The stack pointer of the function's body, which is not known at its entry.
        _ => None,
    };
    match from_cfa {
        Some(behind @ 0..) => {
            let offset = behind.saturating_add(CFA_BEHIND_STACK_POINTER);
            Ok(Place::Memory { base: "%sp".to_owned(), offset })
        }
        // The function will store it there, or its caller has.
        _ => Ok(match abi::passed_in(info, function, number)? {
            Passed::Register(name) => Place::Value(format!("%{name}")),
            Passed::Stack(behind) => {
                let offset = behind.saturating_add(CFA_BEHIND_STACK_POINTER);
                Place::Memory { base: "%sp".to_owned(), offset }
            }
        }),
    }
}

fn operations<'a>(
    expression: Expression<Slice<'a>>,
    of: &Die<'a>,
) -> Result<Vec<Operation<Slice<'a>>>, ParameterError> {
    let mut all = expression.operations(of.unit.encoding());
    let mut operations = Vec::new();
    while let Some(operation) = all.next()? {
        if operations.len() >= MAX_OPERATIONS {
            return Err(ParameterError::Unsupported("a value that is computed".to_owned()));
        }
        operations.push(operation);
    }
    Ok(operations)
}
