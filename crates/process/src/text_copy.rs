//! Program text in memory without a file, at its old address.
//!
//! Programs copy their text to anonymous memory to have it on huge pages, and put the copy where the text was (iodlr, HHVM, BOLT's hugify,
//! `node --use-largepages`). The kernel then shows a hole in a segment of the file. Such memory counts as the file if its bytes are those of the
//! file.

use std::ops::Range;

use profile::FileOffset;

use crate::file::{FileKind, MappedFile};

/// Memory of one process that is compared at one time. Any number of mappings may lie beside a file.
pub(crate) const MAX_COPIES: usize = 16;
/// Bytes that are compared of one copy. A longer one is compared in evenly spread pieces.
const MAX_COMPARED: u64 = 4 << 20;
/// Bytes that are compared at once.
const PIECE: u64 = 64 << 10;

/// Memory that may be a copy of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextCopy {
    pub pid: u32,
    /// Addresses in the process.
    pub range: Range<u64>,
    /// Position in the file of the text that was at the start of the range.
    pub offset: FileOffset,
}

impl TextCopy {
    /// Whether the pages of an executable segment of a file have all of it. Reads nothing.
    pub fn fits(&self, file: &MappedFile) -> bool {
        self.of_segment(file).is_some()
    }

    /// Whether its bytes are those of a file. Reads both, and may block.
    pub fn is_of(&self, file: &MappedFile) -> bool {
        let Some(compared) = self.of_segment(file) else { return false };
        let Ok(bytes) = file.bytes() else { return false };
        let length = compared.end - compared.start;
        let step = if length <= MAX_COMPARED { PIECE } else { length.div_ceil(MAX_COMPARED / PIECE) };
        let mut memory = Vec::new();
        (compared.start..compared.end).step_by(step as usize).all(|at| {
            let length = PIECE.min(compared.end - at) as usize;
            let address = self.range.start + (at - self.offset.0);
            let expected = usize::try_from(at).ok().and_then(|at| bytes.get(at..at.checked_add(length)?));
            memory.clear();
            memory.resize(length, 0);
            let read = sys::memory::read(self.pid, address, &mut memory);
            expected.is_some_and(|expected| read.is_ok_and(|read| read == length) && memory == expected)
        })
    }

    /// The part of the file that is compared: of the segment around it, which has more in its first and last page.
    fn of_segment(&self, file: &MappedFile) -> Option<Range<u64>> {
        if file.kind() != FileKind::Elf {
            return None;
        }
        let copy = self.offset.0..self.offset.0.checked_add(self.range.end.checked_sub(self.range.start)?)?;
        file.segments().iter().filter(|segment| segment.executable).find_map(|segment| {
            let (start, end) =
                (segment.file_offset.0, segment.file_offset.0.saturating_add(segment.file_size));
            let pages = start & !(PAGE - 1)..end.checked_next_multiple_of(PAGE)?;
            let compared = copy.start.max(start)..copy.end.min(end);
            let is_within = pages.start <= copy.start && copy.end <= pages.end;
            (is_within && compared.start < compared.end).then_some(compared)
        })
    }
}

/// The largest page size. Segments are mapped with the rest of their first and last page.
const PAGE: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn equal_bytes_are_a_copy_and_others_are_not() {
        let file = MappedFile::open(Path::new("/proc/self/exe")).unwrap();
        let bytes = file.bytes().unwrap();
        let text = *file.segments().iter().find(|segment| segment.executable).unwrap();
        let first = text.file_offset.0.next_multiple_of(4096);
        let mut memory = bytes[first as usize..first as usize + (256 << 10)].to_vec();
        let copy = |memory: &[u8], offset: u64| {
            let start = memory.as_ptr().addr() as u64;
            let range = start..start + memory.len() as u64;
            TextCopy { pid: std::process::id(), range, offset: FileOffset(offset) }
        };
        assert!(copy(&memory, first).fits(&file) && copy(&memory, first).is_of(&file));
        assert!(!copy(&memory, first + 4096).is_of(&file), "other text");
        let beyond = copy(&memory, text.file_offset.0.saturating_add(text.file_size));
        assert!(!beyond.fits(&file) && !beyond.is_of(&file), "not in the segment");
        let gone = TextCopy { range: 8..8 + 4096, ..copy(&memory, first) };
        assert!(!gone.is_of(&file), "unreadable memory");
        for at in [0, 100 << 10, (256 << 10) - 1] {
            memory[at] ^= 1;
            assert!(!copy(&memory, first).is_of(&file), "byte {at} differs");
            memory[at] ^= 1;
        }
    }
}
