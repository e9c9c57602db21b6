//! The kernel's types of values.

use gimli::constants as dw;

use super::debug_info::{DebugInfo, Die};
use super::error::ParameterError;
use super::place::{Place, Way};

/// The value at the end of a way, as `LOCATION:TYPE`. `wanted`: a type that was asked for.
pub(super) fn fetched<'a>(
    info: &DebugInfo<'a>,
    kind: &Die<'a>,
    way: &Way,
    wanted: Option<&str>,
) -> Result<String, ParameterError> {
    if let Some(wanted) = wanted {
        let location = if wanted.contains("string") { text_at(&way.place) } else { way.place.text() };
        return Ok(format!("{location}:{wanted}"));
    }
    let kind = info.stripped(kind)?;
    if let Some((lowest, width)) = way.bits {
        return bits(info, &kind, &way.place, lowest, width);
    }
    let tag = info.entry(&kind)?.tag();
    match tag {
        dw::DW_TAG_pointer_type if info.is_text(&kind)? => Ok(format!("{}:string", text_at(&way.place))),
        dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type => {
            Ok(format!("{}:x64", way.place.text()))
        }
        dw::DW_TAG_base_type | dw::DW_TAG_enumeration_type => {
            Ok(format!("{}:{}", way.place.text(), number(info, &kind)?))
        }
        dw::DW_TAG_array_type if info.is_text(&kind)? => match &way.place {
            Place::Memory { base, offset } => Ok(format!("{offset:+}({base}):string")),
            Place::Value(_) => Err(ParameterError::Unsupported("an array in a register".to_owned())),
        },
        other => Err(ParameterError::Unsupported(format!(
            "a value that is {}; name a member",
            DebugInfo::tag_name(other)
        ))),
    }
}

/// A text whose address is at a place.
fn text_at(place: &Place) -> String {
    format!("+0({})", place.text())
}

/// The type of a number.
fn number<'a>(info: &DebugInfo<'a>, kind: &Die<'a>) -> Result<String, ParameterError> {
    if info.is_float(kind)? {
        return Err(ParameterError::Unsupported("a floating-point number".to_owned()));
    }
    let letter = if info.is_signed(kind)? { 's' } else { 'u' };
    match info.size(kind)? {
        Some(size @ (1 | 2 | 4 | 8)) => Ok(format!("{letter}{}", 8 * size)),
        Some(size) => Err(ParameterError::Unsupported(format!("a number of {size} bytes"))),
        None => Err(ParameterError::damaged("a number has no size")),
    }
}

/// Bits of a word in memory. `lowest`: from the place on.
fn bits<'a>(
    info: &DebugInfo<'a>,
    kind: &Die<'a>,
    place: &Place,
    lowest: u64,
    width: u64,
) -> Result<String, ParameterError> {
    let Place::Memory { base, offset } = place else {
        return Err(ParameterError::Unsupported("bits of a register".to_owned()));
    };
    if info.is_signed(kind)? {
        return Err(ParameterError::Unsupported(
            "bits with a sign, which the kernel reads without".to_owned(),
        ));
    }
    let bytes = i64::try_from(lowest / 8).ok().and_then(|bytes| offset.checked_add(bytes));
    let offset = bytes.ok_or(ParameterError::damaged("an offset is out of range"))?;
    let inside = lowest % 8;
    let container = [8, 16, 32, 64].into_iter().find(|container| inside.saturating_add(width) <= *container);
    match container {
        Some(container) if width > 0 => Ok(format!("{offset:+}({base}):b{width}@{inside}/{container}")),
        _ => Err(ParameterError::Unsupported("bits that are no part of a word".to_owned())),
    }
}
