//! Where parameters of functions are, by their names: from debug information (DWARF 2 to 5) to the kernel's language.
//!
//! In: a parameter, members behind pointers (`request->id`) and inside of structures (`request.id`), through typedefs, anonymous members and base
//! classes, bits, numbers, enumerations, texts behind `char *`. Not in: numbers in floating-point registers, structures passed in registers or in
//! several pieces, type units, debug information that is split off; these are refused by name.
//!
//! Guaranteed: no panic, and bounded work, whatever the sections contain. At the entry of a function, a parameter that the compiler describes
//! by its frame is where the System V ABI passes it: the frame is made later.

mod abi;
mod debug_info;
mod error;
mod in_function;
mod kind;
mod path;
mod place;

pub use error::ParameterError;
pub(crate) use in_function::InFunction;

use self::debug_info::{DebugInfo, Die};
use self::path::{ParameterPath, Step};
use self::place::{Place, Way};
use crate::image::Image;

/// Where a parameter is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// As `LOCATION:TYPE` in the kernel's language.
    At(String),
    /// The program does not keep it at this place in the code.
    OptimizedOut,
}

/// Finds the parameter, or what it leads to, that a text names.
pub(crate) fn parameter(image: &Image, at: InFunction, text: &str) -> Result<Parameter, ParameterError> {
    if !image.is_x86() {
        return Err(ParameterError::Unsupported(
            "parameters of programs for other processors than x86-64".to_owned(),
        ));
    }
    if image.is_go() {
        return Err(ParameterError::Unsupported(
            "parameters of Go, which passes them in its own way".to_owned(),
        ));
    }
    let path = ParameterPath::parse(text)?;
    let sections = debug_info::sections(image)?;
    let info = DebugInfo::new(&sections);
    let function = info.function(at.function)?;
    let (number, parameter) = info.parameter(&function, &path.name)?;
    let place = match place::of_parameter(&info, &function, &parameter, number, at)? {
        Some(place) => place,
        None => return Ok(Parameter::OptimizedOut),
    };
    let mut way = Way { place, bits: None };
    let mut kind = info.type_of(&parameter)?;
    for step in &path.steps {
        kind = take(&info, step, &kind, &mut way)?;
    }
    kind::fetched(&info, &kind, &way, path.kind.as_deref()).map(Parameter::At)
}

/// One step: through a pointer, or into a structure.
fn take<'a>(
    info: &DebugInfo<'a>,
    step: &Step,
    kind: &Die<'a>,
    way: &mut Way,
) -> Result<Die<'a>, ParameterError> {
    let mut kind = info.stripped(kind)?;
    if step.through_pointer {
        kind = info.stripped(&info.pointed_at(&kind, &step.member)?)?;
        way.place = Place::Memory { base: way.place.text(), offset: 0 };
    }
    let member = info.member(&kind, &step.member)?;
    if matches!(way.place, Place::Value(_)) {
        return Err(ParameterError::Unsupported("a structure that is passed in registers".to_owned()));
    }
    way.enter(member.offset, member.bits)?;
    Ok(member.kind)
}
