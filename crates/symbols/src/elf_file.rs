//! An ELF file together with its bytes.

use std::borrow::Cow;
use std::ops::{Deref, Range};
use std::sync::Arc;

use elf::constants::{Machine, SHT_NOBITS};
use elf::{Layout, Section};
use profile::BuildId;
use sys::filemap::FileMap;

/// No section may be longer than this when it is decompressed.
pub(crate) const MAX_DECOMPRESSED: u64 = 1 << 30;

/// The bytes of a file, mapped or in memory.
#[derive(Clone, Debug)]
pub(crate) enum Bytes {
    Mapped(Arc<FileMap>),
    Memory(Arc<[u8]>),
}

impl Bytes {
    /// Frees the memory of a mapped file. Its bytes are read from the file again when they are needed.
    fn release(&self) {
        if let Self::Mapped(map) = self {
            map.release();
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Memory(bytes) => bytes,
        }
    }
}

/// A file with a readable section table.
#[derive(Clone, Debug)]
pub(crate) struct ElfFile {
    bytes: Bytes,
    layout: Layout,
    /// The addresses of executable sections, sorted, none twice.
    code: Arc<[Range<u64>]>,
}

impl ElfFile {
    /// `None` if the bytes are no 64-bit ELF file with a readable section table.
    pub fn parse(bytes: Bytes) -> Option<Self> {
        let layout = Layout::parse(&bytes).filter(|layout| !layout.has_damaged_sections)?;
        let code = layout.sections.iter().filter(|section| section.is_code());
        let mut code: Vec<_> = code.map(Section::addresses).filter(|range| !range.is_empty()).collect();
        code.sort_by_key(|range| range.start);
        code.dedup_by(|later, range| {
            let overlaps = later.start <= range.end;
            if overlaps {
                range.end = range.end.max(later.end);
            }
            overlaps
        });
        Some(Self { bytes, layout, code: code.into() })
    }

    /// Frees the memory of the bytes that were read so far.
    pub fn release(&self) {
        self.bytes.release();
    }

    pub fn machine(&self) -> Machine {
        self.layout.machine
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn sections(&self) -> &[Section] {
        &self.layout.sections
    }

    pub fn section(&self, name: &str) -> Option<&Section> {
        self.layout.section(name.as_bytes())
    }

    /// The bytes of a section as they are in the file; empty if they are not all there.
    pub fn data(&self, section: &Section) -> &[u8] {
        section.bytes(&self.bytes).unwrap_or_default()
    }

    /// The bytes of a section, decompressed where needed; empty if it has none in the file. `None` if it is damaged or
    /// longer than [`MAX_DECOMPRESSED`].
    pub fn decompressed(&self, section: &Section) -> Option<Cow<'_, [u8]>> {
        if section.bytes(&self.bytes).is_none() && !section.is_compressed() {
            return Some(Cow::Borrowed(&[]));
        }
        section.decompressed(&self.bytes, MAX_DECOMPRESSED)
    }

    /// Whether an executable section covers a link-time address.
    pub fn is_code(&self, address: u64) -> bool {
        let behind = self.code.partition_point(|range| range.start <= address);
        behind.checked_sub(1).and_then(|index| self.code.get(index)).is_some_and(|range| address < range.end)
    }

    /// The GNU build-id in the notes.
    pub fn build_id(&self) -> Option<BuildId> {
        self.layout.build_id(&self.bytes)
    }

    /// Whether a debugger would find functions and lines in this file.
    pub fn has_dwarf(&self) -> bool {
        let section = self.section(".debug_info").or_else(|| self.section(".zdebug_info"));
        section.is_some_and(|s| s.kind != SHT_NOBITS && s.size != 0)
    }
}
