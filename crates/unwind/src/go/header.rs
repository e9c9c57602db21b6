//! Finding and reading the header of `.gopclntab`.

use std::borrow::Cow;

use crate::elf::Image;
use crate::reader::Reader;

/// Magic numbers of Go 1.16, 1.18 and 1.20 (the current one), then two zero bytes, instruction unit 1, 8-byte pointers.
const MAGICS: [(u32, Version); 3] =
    [(0xffff_fffa, Version::Go116), (0xffff_fff0, Version::Go118), (0xffff_fff1, Version::Go120)];
const UNITS: [u8; 4] = [0, 0, 1, 8];
/// Section names, for executables of fixed address and for position-independent ones.
const SECTIONS: [&[u8]; 2] = [b".gopclntab", b".data.rel.ro.gopclntab"];

/// Layouts of the table.
const SHT_PROGBITS: u32 = 1;
const SHF_ALLOC: u64 = 2;
const SHF_EXECINSTR: u64 = 4;
/// More functions than any program has.
const MAX_FUNCTIONS: u64 = 4 << 20;
/// So much data is searched, in all.
const MAX_SEARCHED: u64 = 1 << 30;
/// Searched between two looks at how much is in memory.
const BLOCK: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Go116,
    Go118,
    Go120,
}

/// The table of functions of a Go program.
#[derive(Debug)]
pub(super) struct PcLnTab<'a> {
    pub version: Version,
    /// Link-time address of the header.
    pub address: u64,
    /// From the header to the end of the section or segment.
    pub data: Cow<'a, [u8]>,
    pub function_count: u64,
    /// The header's own idea of where text starts; zero in current versions and before relocation.
    pub text_start: u64,
    pub names: usize,
    pub pctab: usize,
    pub functab: usize,
}

/// The table by section name, else by its magic number.
pub(super) fn find<'a>(image: &Image<'a>) -> Option<PcLnTab<'a>> {
    for name in SECTIONS {
        if let Some(section) = image.section(name)
            && let Some(table) = image.section_bytes(section).and_then(|data| read(data, section.addr))
        {
            return Some(table);
        }
    }
    // Programs linked by the system's linker have it inside of other data. Sections of code and of zeros hold none, nor
    // do the frame sections.
    let data = image.sections.iter().filter(|section| {
        let (code, loaded) = (section.flags & SHF_EXECINSTR != 0, section.flags & SHF_ALLOC != 0);
        loaded && !code && section.kind == SHT_PROGBITS && !section.name.ends_with(b".eh_frame")
    });
    let mut places: Vec<(u64, u64)> = data.map(|section| (section.addr, section.size)).collect();
    if places.is_empty() {
        // Stripped of section headers.
        places = image.load_segments().map(|segment| (segment.vaddr, segment.len)).collect();
    }
    let mut left = MAX_SEARCHED.min(image.data.len() as u64);
    places.into_iter().find_map(|(address, len)| {
        // Sections that do not overlap are not longer than the file.
        let len = len.min(left);
        left -= len;
        search(image, address, len)
    })
}

/// The table by its magic number.
fn search<'a>(image: &Image<'a>, address: u64, len: u64) -> Option<PcLnTab<'a>> {
    let bytes = image.bytes_at(address)?;
    let misaligned = (address.wrapping_neg() & 7) as usize;
    let within = bytes.get(..usize::try_from(len).unwrap_or(usize::MAX).min(bytes.len()))?;
    for (i, block) in within.get(misaligned..)?.chunks(BLOCK).enumerate() {
        image.touch();
        for (j, word) in block.as_chunks::<8>().0.iter().enumerate() {
            if word[4..] == UNITS && word[1..4] == [0xff; 3] {
                let at = misaligned + i * BLOCK + j * 8;
                if let Some(table) = read(Cow::Borrowed(&bytes[at..]), address + at as u64) {
                    return Some(table);
                }
            }
        }
    }
    None
}

fn read(data: Cow<'_, [u8]>, address: u64) -> Option<PcLnTab<'_>> {
    let mut r = Reader::at(&data, 0);
    let magic = r.u32()?;
    let (_, version) = MAGICS.into_iter().find(|(known, _)| *known == magic)?;
    if r.bytes(4)? != UNITS {
        return None;
    }
    let (function_count, _files) = (r.u64()?, r.u64()?);
    let text_start = if version == Version::Go116 { 0 } else { r.u64()? };
    let (names, _cu, _files, pctab, functab) = (r.u64()?, r.u64()?, r.u64()?, r.u64()?, r.u64()?);
    let len = data.len() as u64;
    let entry_size = if version == Version::Go116 { 16 } else { 8 };
    let table_end = function_count.checked_mul(entry_size)?.checked_add(functab)?;
    if function_count == 0
        || function_count > MAX_FUNCTIONS
        || names >= len
        || pctab >= len
        || table_end >= len
    {
        return None;
    }
    let (names, pctab, functab) = (names as usize, pctab as usize, functab as usize);
    Some(PcLnTab { version, address, data, function_count, text_start, names, pctab, functab })
}
