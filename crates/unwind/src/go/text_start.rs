//! The start of Go's text: functions are stored as offsets from it.
//!
//! The header of the table holds the address in older versions. In newer ones only the runtime's `moduledata` does, which
//! points to the table and may be stored in the form of relocations. Every candidate is compared with the code of many
//! functions before it is used.

use elf::gopclntab::{self, PcLnTab, Version};

use super::stack_sizes::functions;
use crate::image::Image;

/// Functions whose prologue is compared with their table.
const SAMPLES: usize = 256;

pub(super) fn find(image: &Image<'_>, table: &PcLnTab<'_>) -> Option<u64> {
    if table.version == Version::Go116 {
        return fits(image, table, 0).then_some(0);
    }
    let in_header = (table.text_start != 0).then_some(table.text_start);
    let plausible = |text: &u64| fits(image, table, *text);
    in_header
        .filter(plausible)
        .or_else(|| {
            let modules = gopclntab::modules(&image.layout, image.data, table, &|| image.touch());
            modules.into_iter().filter_map(|module| module.text).find(plausible)
        })
        .or_else(|| image.section(b".text").map(|section| section.address).filter(plausible))
        .or_else(|| image.code.iter().map(|code| code.start).find(plausible))
}

/// Whether the code of functions matches their stack-size tables: an instruction that grows the stack must precede the first
/// position where it has grown. With a wrong start of the text, the check fails; with the right one, it passes for almost
/// all functions.
fn fits(image: &Image<'_>, table: &PcLnTab<'_>, text: u64) -> bool {
    let (mut right, mut wrong) = (0, 0);
    let step = (table.function_count as usize / SAMPLES).max(1);
    for function in functions(table, text).step_by(step) {
        let Some(Some((grown_at, _, delta))) =
            function.stack_sizes.into_iter().find(|s| s.is_none_or(|s| s.2 > 0))
        else {
            continue;
        };
        let code = image.code_at(function.start).and_then(|_| image.bytes_at(function.start));
        let before = code.and_then(|code| code.get(..usize::try_from(grown_at).ok()?)).unwrap_or_default();
        let grows = match before {
            [.., 0x55] => delta == 8,
            [.., 0x48, 0x83, 0xec, n] => i32::from(*n as i8) == delta,
            [.., 0x48, 0x81, 0xec, a, b, c, d] => i32::from_le_bytes([*a, *b, *c, *d]) == delta,
            [.., 0x48, 0x83, 0xc4, n] => -i32::from(*n as i8) == delta,
            [.., 0x48, 0x81, 0xc4, a, b, c, d] => {
                i32::from_le_bytes([*a, *b, *c, *d]).wrapping_neg() == delta
            }
            _ => false,
        };
        *if grows { &mut right } else { &mut wrong } += 1;
    }
    right > 0 && right >= wrong * 8
}
