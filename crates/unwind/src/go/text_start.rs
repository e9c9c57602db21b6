//! Where Go's text starts: functions are stored as offsets from it.
//!
//! Headers carried the address until it became an unused field; then only the runtime's `moduledata` has it, which
//! points to the table and may itself be there only in the form of relocations. Every candidate is checked against
//! the code of many functions before it is believed.

use super::header::PcLnTab;
use super::header::Version;
use crate::elf::Image;
use crate::reader::Reader;

/// Offset of `moduledata.text`, the same since Go 1.16: 1 pointer, 6 slices, `findfunctab`, `minpc`, `maxpc`.
const MODULEDATA_TEXT: u64 = 176;
const R_X86_64_RELATIVE: u64 = 8;
const SHT_RELA: u32 = 4;
/// Pointers to the table that are looked at; programs have one or two.
const MAX_CANDIDATES: usize = 64;
/// Functions whose prologue is compared with their table, at most.
const SAMPLES: usize = 256;

pub(super) fn find(image: &Image<'_>, table: &PcLnTab<'_>) -> Option<u64> {
    if table.version == Version::Go116 {
        return fits(image, table, 0).then_some(0);
    }
    let in_header = (table.text_start != 0).then_some(table.text_start);
    let plausible = |text: &u64| fits(image, table, *text);
    in_header
        .filter(plausible)
        .or_else(|| moduledata(image, table).take(MAX_CANDIDATES).find(plausible))
        .or_else(|| relocated_moduledata(image, table).filter(plausible))
        .or_else(|| image.section(b".text").map(|section| section.addr).filter(plausible))
        .or_else(|| image.code.iter().map(|code| code.start).find(plausible))
}

/// Text addresses in everything that points to the table.
fn moduledata(image: &Image<'_>, table: &PcLnTab<'_>) -> impl Iterator<Item = u64> {
    let wanted = table.address.to_le_bytes();
    image.load_segments().flat_map(move |segment| {
        let bytes = image.bytes_at(segment.vaddr).unwrap_or_default();
        let misaligned = (segment.vaddr.wrapping_neg() & 7) as usize;
        let words = bytes.get(misaligned..).unwrap_or_default().as_chunks::<8>().0;
        let hits = words.iter().enumerate().filter(move |(_, word)| **word == wanted);
        hits.filter_map(move |(i, _)| words.get(i + MODULEDATA_TEXT as usize / 8))
            .map(|word| u64::from_le_bytes(*word))
    })
}

fn relocated_moduledata(image: &Image<'_>, table: &PcLnTab<'_>) -> Option<u64> {
    let to_table = relocations(image).filter(|(_, addend)| *addend == table.address);
    let texts = to_table.filter_map(|(place, _)| place.checked_add(MODULEDATA_TEXT));
    let texts: Vec<u64> = texts.take(MAX_CANDIDATES).collect();
    if texts.is_empty() {
        return None;
    }
    let in_code = |addend: &u64| image.code_at(*addend).is_some();
    let found = relocations(image).filter(|(place, addend)| texts.contains(place) && in_code(addend));
    found.min_by_key(|(place, _)| texts.iter().position(|text| text == place)).map(|(_, addend)| addend)
}

/// Places and what they will hold, relative to where the program is loaded.
fn relocations(image: &Image<'_>) -> impl Iterator<Item = (u64, u64)> {
    image.tables(&[SHT_RELA]).flat_map(|(_, data)| data.as_chunks::<24>().0).filter_map(|entry| {
        let mut r = Reader::at(entry, 0);
        let (place, info, addend) = (r.u64()?, r.u64()?, r.u64()?);
        (info == R_X86_64_RELATIVE).then_some((place, addend))
    })
}

/// Whether functions do what their stack-size tables say: in front of the first place where the stack has grown there
/// must be an instruction that grows it. The check fails for code in the wrong place and passes for almost all
/// functions in the right one.
fn fits(image: &Image<'_>, table: &PcLnTab<'_>, text: u64) -> bool {
    let (mut right, mut wrong) = (0, 0);
    let step = (table.function_count as usize / SAMPLES).max(1);
    for function in table.functions(text).step_by(step) {
        let Some(Some((grown_at, _, delta))) = function.pcsp.into_iter().find(|s| s.is_none_or(|s| s.2 > 0))
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
