//! Whether an address is where an instruction begins.

use iced_x86::{Decoder, DecoderOptions};

use crate::image::Image;

/// Code that is decoded for one answer.
const MAX_CODE: u64 = 1 << 20;

/// Where the instruction begins that an address is inside of. `None` if one begins at the address, or if it cannot be told.
pub(crate) fn instruction_around(image: &Image, function: u64, address: u64) -> Option<u64> {
    if !image.is_x86() || address.checked_sub(function).is_none_or(|inside| inside > MAX_CODE) {
        return None;
    }
    // The longest instruction has 15 bytes.
    let code = image.code(function..address.saturating_add(15));
    for instruction in &mut Decoder::with_ip(64, code, function, DecoderOptions::NONE) {
        if instruction.is_invalid() || instruction.ip() >= address {
            return None;
        }
        if instruction.next_ip() > address {
            return Some(instruction.ip());
        }
    }
    None
}
