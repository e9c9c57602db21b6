//! The file to read unwind information from, with a bound on how much of it is in memory.

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;

use elf::constants::{PF_X, PT_GNU_EH_FRAME, PT_LOAD, SectionType};
use elf::{Layout, ProgramHeader, Section};

use crate::Error;
use crate::machine::Machine;

/// Compressed debug sections state their own size. Larger ones are not read.
const MAX_DECOMPRESSED: u64 = 256 << 20;
/// Most that a section may expand to, as a multiple. Deflate reaches about 1032, and zstd does not reach that on frame data.
const MAX_RATIO: u64 = 1100;
/// Bytes of symbols and relocations that are read.
const MAX_TABLES: usize = 256 << 20;

/// A 64-bit little-endian ELF file.
#[derive(Debug)]
pub(crate) struct Image<'a> {
    pub data: &'a [u8],
    pub machine: Machine,
    pub entry: u64,
    pub layout: Layout,
    /// Link-time addresses of code that is in the file; sorted, disjoint.
    pub code: Vec<Range<u64>>,
    touched: Touched<'a>,
}

/// Places that may be read before memory is released. The kernel maps up to 64 KiB around each.
const TOUCHED_AT_ONCE: u32 = 64;

/// Counts the places that were read of a mapped file.
struct Touched<'a> {
    places: Cell<u32>,
    release: &'a dyn Fn(),
}

impl std::fmt::Debug for Touched<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Touched").field(&self.places).finish()
    }
}

impl<'a> Image<'a> {
    pub(crate) fn parse(data: &'a [u8]) -> Result<Self, Error> {
        let image = Self::parse_without_code(data)?;
        if image.code.is_empty() { Err(Error::NoExecutableSegment) } else { Ok(image) }
    }

    /// Parses a file that may have no code, such as a separate debug file.
    pub(crate) fn parse_without_code(data: &'a [u8]) -> Result<Self, Error> {
        let layout = Layout::parse(data).ok_or(Error::NotElf)?;
        let machine = Machine::of(layout.machine).ok_or(Error::Machine(layout.machine.0))?;
        let code = code_ranges(&layout.program_headers);
        let touched = Touched { places: Cell::new(0), release: &|| {} };
        Ok(Self { data, machine, entry: layout.entry, layout, code, touched })
    }

    /// Calls `release` each time that [`TOUCHED_AT_ONCE`] places were read.
    pub(crate) fn releasing(mut self, release: &'a dyn Fn()) -> Self {
        self.touched.release = release;
        self
    }

    /// Counts a place that is read.
    pub(crate) fn touch(&self) {
        let places = self.touched.places.get() + 1;
        if places < TOUCHED_AT_ONCE {
            self.touched.places.set(places);
        } else {
            self.touched.places.set(0);
            (self.touched.release)();
        }
    }

    /// Counts the places of a range of this length.
    pub(crate) fn touch_all(&self, bytes: u64) {
        (0..=(bytes >> 16).min(TOUCHED_AT_ONCE.into())).for_each(|_| self.touch());
    }

    pub(crate) fn section(&self, name: &[u8]) -> Option<&Section> {
        self.layout.section(name)
    }

    /// The bytes of a section, decompressed where needed; `None` if they are not all in the file.
    pub(crate) fn section_bytes(&self, section: &Section) -> Option<Cow<'a, [u8]>> {
        section.decompressed(self.data, MAX_DECOMPRESSED.min(section.size.saturating_mul(MAX_RATIO)))
    }

    /// Sections of these kinds that are not compressed. Together they are no longer than the file, as sections that do not
    /// overlap.
    pub(crate) fn tables(&self, kinds: &[SectionType]) -> impl Iterator<Item = (SectionType, &'a [u8])> {
        let mut left = MAX_TABLES.min(self.data.len());
        let sections = self.layout.sections.iter().filter(|section| kinds.contains(&section.kind));
        sections.filter_map(move |section| {
            let data = self.data.get(self.file_range_of(section)?)?;
            left = left.checked_sub(data.len())?;
            Some((section.kind, data))
        })
    }

    /// The bytes of the file from a link-time address to the end of its segment.
    pub(crate) fn bytes_at(&self, svma: u64) -> Option<&'a [u8]> {
        self.touch();
        self.data.get(self.file_range_at(svma)?)
    }

    /// The position in the file of the bytes of [`Self::bytes_at`].
    pub(crate) fn file_range_at(&self, svma: u64) -> Option<Range<usize>> {
        self.layout.file_range_at(svma)
    }

    /// The position in the file of an uncompressed section, if all of it is in the file.
    pub(crate) fn file_range_of(&self, section: &Section) -> Option<Range<usize>> {
        if section.is_compressed() {
            return None;
        }
        section.file_range(self.data.len())
    }

    /// The range of code with this address.
    pub(crate) fn code_at(&self, svma: u64) -> Option<&Range<u64>> {
        let after = self.code.partition_point(|range| range.start <= svma);
        self.code.get(after.checked_sub(1)?).filter(|range| svma < range.end)
    }

    /// Link-time address of `.eh_frame_hdr` by program header, which stripping never removes.
    pub(crate) fn eh_frame_hdr(&self) -> Option<u64> {
        let header = self.layout.program_headers.iter().find(|header| header.kind == PT_GNU_EH_FRAME);
        header.map(|header| header.address)
    }
}

fn code_ranges(headers: &[ProgramHeader]) -> Vec<Range<u64>> {
    let executable = |h: &&ProgramHeader| h.kind == PT_LOAD && h.flags.0 & PF_X.0 != 0;
    let mut ranges: Vec<_> =
        headers.iter().filter(executable).map(|h| h.address..h.address + h.file_size).collect();
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use elf::constants::{Machine as ElfMachine, SHT_RELA, SHT_SYMTAB, SectionFlags};

    #[test]
    fn sections_of_the_same_bytes_are_read_once() {
        let data = [0; 1000];
        let section = Section {
            name: Box::default(),
            kind: SHT_RELA,
            flags: SectionFlags(0),
            address: 0,
            offset: 100,
            size: 600,
            link: 0,
            align: 1,
            entry_size: 0,
        };
        let layout = Layout {
            machine: ElfMachine(62),
            entry: 0,
            program_headers: Vec::new(),
            sections: vec![section; 60_000],
            has_damaged_sections: false,
        };
        let touched = Touched { places: Cell::new(0), release: &|| {} };
        let image =
            Image { data: &data, machine: Machine::X86_64, entry: 0, layout, code: Vec::new(), touched };
        assert_eq!(image.tables(&[SHT_RELA]).count(), 1);
        assert_eq!(image.tables(&[SHT_SYMTAB]).count(), 0);
    }
}
