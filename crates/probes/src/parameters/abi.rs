//! The registers in which functions get their arguments: System V ABI of x86-64, 3.2.3.

use gimli::constants as dw;

use super::debug_info::{DebugInfo, Die};
use super::error::ParameterError;

/// In the order of the arguments.
const REGISTERS: [&str; 6] = ["di", "si", "dx", "cx", "r8", "r9"];
/// Registers for floating-point numbers.
const FLOAT_REGISTERS: usize = 8;
/// Larger structures are passed and returned in memory.
const MAX_IN_REGISTERS: u64 = 16;

/// What an argument takes.
enum Class {
    /// A general register.
    Integer,
    /// A floating-point register.
    Float,
    /// So many bytes of memory.
    Memory(u64),
}

/// Where a function gets an argument.
pub(super) enum Passed {
    /// In this register.
    Register(&'static str),
    /// On the stack, so many bytes behind the return address.
    Stack(i64),
}

/// Where the parameter with this number is at the entry.
pub(super) fn passed_in<'a>(
    info: &DebugInfo<'a>,
    function: &Die<'a>,
    number: usize,
) -> Result<Passed, ParameterError> {
    let (mut taken, mut floats, mut stack) = (usize::from(returns_in_memory(info, function)?), 0, 0u64);
    for (at, parameter) in info.parameters(function)?.iter().enumerate().take(number + 1) {
        let is_it = at == number;
        let on_stack = match class(info, &info.type_of(parameter)?)? {
            Class::Integer => match REGISTERS.get(taken) {
                Some(name) if is_it => return Ok(Passed::Register(name)),
                Some(_) => {
                    taken += 1;
                    continue;
                }
                None => 8,
            },
            Class::Float if floats < FLOAT_REGISTERS && is_it => {
                return Err(ParameterError::Unsupported("a number in a floating-point register".to_owned()));
            }
            Class::Float if floats < FLOAT_REGISTERS => {
                floats += 1;
                continue;
            }
            Class::Float => 8,
            Class::Memory(bytes) => bytes.saturating_add(7) & !7,
        };
        if is_it {
            break;
        }
        stack = stack.saturating_add(on_stack);
    }
    i64::try_from(stack).map(Passed::Stack).map_err(|_| ParameterError::damaged("arguments are too large"))
}

fn class<'a>(info: &DebugInfo<'a>, kind: &Die<'a>) -> Result<Class, ParameterError> {
    let kind = info.stripped(kind)?;
    let entry = info.entry(&kind)?;
    match entry.tag() {
        dw::DW_TAG_base_type if info.is_float(&kind)? => match info.size(&kind)? {
            Some(..=8) => Ok(Class::Float),
            _ => Err(ParameterError::Unsupported(
                "an argument behind a long double or complex number".to_owned(),
            )),
        },
        dw::DW_TAG_base_type if info.size(&kind)?.is_none_or(|size| size > 8) => {
            Err(ParameterError::Unsupported("an argument behind a number of 128 bits".to_owned()))
        }
        dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
            // Where it is passed by its address, that is an integer.
            if info.is_passed_by_reference(&kind)? {
                return Ok(Class::Integer);
            }
            match info.size(&kind)? {
                // Some kinds are aligned on the stack.
                Some(size) if size > MAX_IN_REGISTERS && !info.is_aligned(&kind)? => Ok(Class::Memory(size)),
                _ => Err(ParameterError::Unsupported(
                    "an argument behind a structure in registers or with an alignment of its own".to_owned(),
                )),
            }
        }
        _ => Ok(Class::Integer),
    }
}

/// Whether the first register has the address for the result.
fn returns_in_memory<'a>(info: &DebugInfo<'a>, function: &Die<'a>) -> Result<bool, ParameterError> {
    let Some(kind) = info.result_type(function)? else { return Ok(false) };
    let kind = info.stripped(&kind)?;
    let is_structure = matches!(
        info.entry(&kind)?.tag(),
        dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type
    );
    Ok(is_structure
        && (info.is_passed_by_reference(&kind)?
            || info.size(&kind)?.is_some_and(|size| size > MAX_IN_REGISTERS)))
}
