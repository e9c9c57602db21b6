//! The debug sections of a file, as slices.

use gimli::{DebugCuIndex, Dwarf, DwarfFileType, EndianSlice, IndexSectionId, LittleEndian, SectionId};

/// How gimli sees bytes.
pub(crate) type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// The debug sections of a file, decompressed. Missing ones are empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sections<'a> {
    /// `.debug_abbrev`
    pub abbrev: &'a [u8],
    /// `.debug_addr`
    pub addr: &'a [u8],
    /// `.debug_info`
    pub info: &'a [u8],
    /// `.debug_line`
    pub line: &'a [u8],
    /// `.debug_line_str`
    pub line_str: &'a [u8],
    /// `.debug_ranges`
    pub ranges: &'a [u8],
    /// `.debug_rnglists`
    pub rnglists: &'a [u8],
    /// `.debug_str`
    pub str: &'a [u8],
    /// `.debug_str_offsets`
    pub str_offsets: &'a [u8],
}

impl<'a> Sections<'a> {
    /// The names of the sections that are read, in a usual file.
    pub const NAMES: [&'static str; 9] = [
        ".debug_abbrev",
        ".debug_addr",
        ".debug_info",
        ".debug_line",
        ".debug_line_str",
        ".debug_ranges",
        ".debug_rnglists",
        ".debug_str",
        ".debug_str_offsets",
    ];

    /// Takes each of [`Self::NAMES`] from a function.
    pub fn load(mut section: impl FnMut(&'static str) -> &'a [u8]) -> Self {
        let [abbrev, addr, info, line, line_str, ranges, rnglists, str, str_offsets] =
            Self::NAMES.map(&mut section);
        Self { abbrev, addr, info, line, line_str, ranges, rnglists, str, str_offsets }
    }

    /// The parts of the sections of a package (`.dwp`) that are of the unit with a number. `index`: its section `.debug_cu_index`.
    #[must_use]
    pub fn of_package(&self, index: &[u8], id: u64) -> Option<Self> {
        let index = DebugCuIndex::new(index, LittleEndian).index().ok()?;
        let mut unit = Self { str: self.str, ..Self::default() };
        for part in index.sections(index.find(id)?).ok()? {
            let (from, to) = match part.section {
                IndexSectionId::DebugInfo => (self.info, &mut unit.info),
                IndexSectionId::DebugAbbrev => (self.abbrev, &mut unit.abbrev),
                IndexSectionId::DebugRngLists => (self.rnglists, &mut unit.rnglists),
                IndexSectionId::DebugStrOffsets => (self.str_offsets, &mut unit.str_offsets),
                _ => continue,
            };
            let start = part.offset as usize;
            *to = from.get(start..start.checked_add(part.size as usize)?)?;
        }
        Some(unit)
    }

    /// Bytes of all sections.
    pub(crate) fn len(&self) -> usize {
        let all = [self.abbrev, self.addr, self.info, self.line, self.line_str];
        let more = [self.ranges, self.rnglists, self.str, self.str_offsets];
        all.into_iter().chain(more).map(<[u8]>::len).sum()
    }

    pub(crate) fn dwarf(&self, file_type: DwarfFileType) -> Dwarf<Slice<'a>> {
        let load = |id| -> Result<Slice<'a>, std::convert::Infallible> {
            let bytes: &'a [u8] = match id {
                SectionId::DebugAbbrev => self.abbrev,
                SectionId::DebugAddr => self.addr,
                SectionId::DebugInfo => self.info,
                SectionId::DebugLine => self.line,
                SectionId::DebugLineStr => self.line_str,
                SectionId::DebugRanges => self.ranges,
                SectionId::DebugRngLists => self.rnglists,
                SectionId::DebugStr => self.str,
                SectionId::DebugStrOffsets => self.str_offsets,
                _ => &[],
            };
            Ok(EndianSlice::new(bytes, LittleEndian))
        };
        let mut dwarf = match Dwarf::load(load) {
            Ok(dwarf) => dwarf,
            Err(never) => match never {},
        };
        dwarf.file_type = file_type;
        dwarf
    }
}
