//! The debug sections of one file, decompressed where needed.

use elf::Section;

use crate::elf_file::ElfFile;

/// The inflated sections of one file together stay below this.
const MAX_INFLATED: usize = 2 << 30;

/// The debug sections of a file. Plain ones stay in the file.
pub(crate) struct DebugSections {
    elf: ElfFile,
    /// For each of [`dwarf::Sections::NAMES`].
    sections: [Place; dwarf::Sections::NAMES.len()],
}

enum Place {
    Missing,
    InFile(Section),
    Inflated(Box<[u8]>),
}

impl DebugSections {
    /// Finds the sections whose names have an ending. `None` if one of them cannot be decompressed.
    pub fn load(elf: &ElfFile, ending: &str) -> Option<Self> {
        let mut inflated = 0;
        let mut is_damaged = false;
        let sections = dwarf::Sections::NAMES.map(|name| {
            let place = place(elf, &format!("{name}{ending}"));
            if let Some(Place::Inflated(bytes)) = &place {
                inflated += bytes.len();
            }
            is_damaged |= place.is_none() || inflated > MAX_INFLATED;
            place.filter(|_| !is_damaged).unwrap_or(Place::Missing)
        });
        (!is_damaged).then(|| Self { elf: elf.clone(), sections })
    }

    /// The sections as slices.
    pub fn get(&self) -> dwarf::Sections<'_> {
        let mut places = self.sections.iter();
        dwarf::Sections::load(|_| match places.next() {
            Some(Place::InFile(section)) => self.elf.data(section),
            Some(Place::Inflated(bytes)) => bytes,
            Some(Place::Missing) | None => &[],
        })
    }

    pub fn heap_bytes(&self) -> usize {
        let inflated = |place: &Place| if let Place::Inflated(bytes) = place { bytes.len() } else { 0 };
        self.sections.iter().map(inflated).sum()
    }
}

/// Where a section is, under its own name or the older one of compressed sections. `None` if it cannot be decompressed.
fn place(elf: &ElfFile, name: &str) -> Option<Place> {
    let older = || elf.section(&name.replacen(".debug_", ".zdebug_", 1));
    let Some(section) = elf.section(name).or_else(older) else { return Some(Place::Missing) };
    if !section.is_compressed() && section.name.starts_with(b".debug_") {
        return Some(Place::InFile(section.clone()));
    }
    let inflated = elf.decompressed(section)?.into_owned();
    // What was read of the file is not needed any more.
    elf.release();
    Some(Place::Inflated(inflated.into()))
}
