//! Finding the table in a file.

use object::elf::{EM_AARCH64, EM_X86_64, SHT_PROGBITS};

use super::table::PcLnTab;
use crate::layout::Layout;

/// Section names in executables of fixed address and in position-independent ones.
const SECTIONS: [&[u8]; 2] = [b".gopclntab", b".data.rel.ro.gopclntab"];
/// Bytes that are searched in all.
const MAX_SEARCHED: u64 = 1 << 30;
/// Bytes that are searched between two calls of `touched`.
pub(super) const BLOCK: usize = 64 << 10;

/// The table of a file, by the name of its section, else by its magic number. `touched` is called after each block of
/// bytes that was read, so that the memory of a mapped file can be given back.
#[must_use]
pub fn find<'f>(layout: &Layout, file: &'f [u8], touched: &dyn Fn()) -> Option<PcLnTab<'f>> {
    let quantum = match layout.machine {
        EM_X86_64 => 1,
        EM_AARCH64 => 4,
        _ => return None,
    };
    let named = SECTIONS.iter().filter_map(|name| layout.section(name)).find_map(|section| {
        let table = PcLnTab::parse(section.bytes(file)?, section.address)?;
        (table.quantum == quantum).then_some(table)
    });
    // The system's linker may merge the table into a larger section.
    named.or_else(|| {
        let mut left = MAX_SEARCHED.min(file.len() as u64);
        data_ranges(layout).into_iter().find_map(|(address, len)| {
            // Ranges that do not overlap are together no longer than the file.
            let len = len.min(left);
            left -= len;
            search(layout, file, address, len, quantum, touched)
        })
    })
}

/// Addresses and lengths of data that is in the file: sections without code and frame information, or the segments in
/// files without sections.
pub(super) fn data_ranges(layout: &Layout) -> Vec<(u64, u64)> {
    let data = layout.sections.iter().filter(|section| {
        let frames = section.name.ends_with(b".eh_frame");
        section.is_loaded() && !section.is_code() && section.kind == SHT_PROGBITS && !frames
    });
    let sections: Vec<_> = data.map(|section| (section.address, section.size)).collect();
    if sections.is_empty() {
        return layout.load_segments().map(|segment| (segment.address, segment.file_size)).collect();
    }
    sections
}

fn search<'f>(
    layout: &Layout,
    file: &'f [u8],
    address: u64,
    len: u64,
    quantum: u8,
    touched: &dyn Fn(),
) -> Option<PcLnTab<'f>> {
    let bytes = layout.bytes_at(file, address)?;
    let misaligned = (address.wrapping_neg() & 7) as usize;
    let within = bytes.get(..usize::try_from(len).unwrap_or(usize::MAX).min(bytes.len()))?;
    for (number, block) in within.get(misaligned..)?.chunks(BLOCK).enumerate() {
        touched();
        for (index, word) in block.as_chunks::<8>().0.iter().enumerate() {
            if word[4..] == [0, 0, quantum, 8] && word[1..4] == [0xff; 3] {
                let at = misaligned + number * BLOCK + index * 8;
                if let Some(table) = PcLnTab::parse(&bytes[at..], address.wrapping_add(at as u64)) {
                    return Some(table);
                }
            }
        }
    }
    None
}
