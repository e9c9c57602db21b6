//! The version of an interpreter that does not export it as a number: the text that `Py_GetVersion` refers to.
//!
//! The function formats "3.9.18 (main, …)" from several texts, one of which is the version alone. The whole file has other texts that
//! look like versions (of libraries, of the Unicode database), so only those are asked whose address the code has.

use elf::Layout;
use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind};

use super::symbols::Place;
use super::version::{Stage, Version};

/// Bytes of the function that are read at most; it has 61 to 91.
const MAX_CODE: usize = 512;
/// No version has more characters.
const MAX_TEXT: usize = 24;

/// The version to which the code of `Py_GetVersion` refers. `None` if it refers to none or to several.
pub(super) fn of_code(layout: &Layout, file: &[u8], function: Place) -> Option<(Version, Stage)> {
    let code = layout.bytes_at(file, function.address)?;
    let len = usize::try_from(function.size).unwrap_or(MAX_CODE).min(MAX_CODE).min(code.len());
    let mut decoder = Decoder::with_ip(64, &code[..len], function.address, DecoderOptions::NONE);
    let mut found = None;
    while decoder.can_decode() {
        let version = referred(&decoder.decode()).and_then(|address| text_at(layout, file, address));
        if version.is_some() && *found.get_or_insert(version) != version {
            return None;
        }
    }
    found.flatten()
}

/// The address that an instruction loads: relative to itself, or as a number in programs with a fixed address.
fn referred(instruction: &Instruction) -> Option<u64> {
    if instruction.is_ip_rel_memory_operand() {
        return Some(instruction.ip_rel_memory_address());
    }
    (0..instruction.op_count()).find_map(|operand| match instruction.op_kind(operand) {
        OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64 => {
            Some(instruction.immediate(operand))
        }
        _ => None,
    })
}

fn text_at(layout: &Layout, file: &[u8], address: u64) -> Option<(Version, Stage)> {
    let bytes = layout.bytes_at(file, address)?;
    let end = bytes.iter().take(MAX_TEXT).position(|byte| *byte == 0)?;
    Version::from_text(&bytes[..end])
}
