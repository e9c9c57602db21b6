//! The sections of an ELF file, read with bounds.
//!
//! Guaranteed: no panic and no allocation beyond the file's size (plus [`MAX_INFLATED`] for compressed sections),
//! whatever the bytes are. 64-bit little-endian files only.

use std::borrow::Cow;
use std::io::Read;
use std::ops::{Deref, Range};
use std::sync::Arc;

use object::elf::{self, CompressionType, FileHeader64, Machine, SectionFlags, SectionType};
use object::read::elf::{FileHeader as _, SectionHeader as _};
use object::{LittleEndian, ReadRef as _};
use profile::BuildId;
use sys::filemap::FileMap;

/// No compressed section may grow beyond this.
pub(crate) const MAX_INFLATED: u64 = 1 << 30;

/// The bytes of a file, mapped or in memory.
#[derive(Clone, Debug)]
pub(crate) enum Bytes {
    Mapped(Arc<FileMap>),
    Memory(Arc<[u8]>),
}

impl Bytes {
    /// Gives back the memory of what was read of a mapped file; it is read again where it is needed again.
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

/// One entry of the section table.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub name: String,
    pub kind: SectionType,
    pub flags: SectionFlags,
    /// Link-time address, 0 if not loaded.
    pub address: u64,
    pub size: u64,
    pub link: u32,
    pub align: u64,
    pub entry_size: u64,
    /// Position of its bytes in the file, without those that the file does not have.
    range: Range<u64>,
}

impl Section {
    pub fn is_loaded(&self) -> bool {
        self.flags.0 & elf::SHF_ALLOC.0 != 0
    }

    pub fn is_code(&self) -> bool {
        self.is_loaded() && self.flags.0 & elf::SHF_EXECINSTR.0 != 0
    }

    pub fn is_compressed(&self) -> bool {
        self.flags.0 & elf::SHF_COMPRESSED.0 != 0
    }

    /// The link-time addresses.
    pub fn addresses(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.size)
    }
}

/// A parsed section table over the bytes of its file.
#[derive(Clone, Debug)]
pub(crate) struct ElfFile {
    bytes: Bytes,
    pub machine: Machine,
    pub sections: Vec<Section>,
}

impl ElfFile {
    /// `None` if the bytes are no 64-bit ELF file with a readable section table.
    pub fn parse(bytes: Bytes) -> Option<Self> {
        let data: &[u8] = &bytes;
        let header = FileHeader64::<LittleEndian>::parse(data).ok()?;
        let endian = header.endian().ok()?;
        let table = header.sections(endian, data).ok()?;
        let sections = table
            .iter()
            .map(|s| Section {
                name: String::from_utf8_lossy(table.section_name(endian, s).unwrap_or_default()).into_owned(),
                kind: s.sh_type(endian),
                flags: s.sh_flags(endian),
                address: s.sh_addr(endian),
                size: s.sh_size(endian),
                link: s.sh_link(endian),
                align: s.sh_addralign(endian),
                entry_size: s.sh_entsize(endian),
                range: match s.file_range(endian) {
                    Some((start, size)) => start..start.saturating_add(size),
                    None => 0..0,
                },
            })
            .collect();
        let machine = header.e_machine(endian);
        Some(Self { machine, sections, bytes })
    }

    /// Gives back the memory of what was read so far.
    pub fn release(&self) {
        self.bytes.release();
    }

    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|s| s.name == name)
    }

    /// The bytes of a section as they are in the file; empty if they are not (all) there.
    pub fn data(&self, section: &Section) -> &[u8] {
        let range = section.range.clone();
        self.bytes
            .deref()
            .read_bytes_at(range.start, range.end.saturating_sub(range.start))
            .unwrap_or_default()
    }

    /// The bytes of a section, decompressed if need be. `None` if that fails or passes [`MAX_INFLATED`].
    pub fn inflated(&self, section: &Section) -> Option<Cow<'_, [u8]>> {
        let data = self.data(section);
        if !section.is_compressed() {
            return Some(Cow::Borrowed(data));
        }
        let word = |at: usize| Some(u32_of(data.get(at..at + 4)?));
        let kind = word(0)?;
        let size = u64_of(data.get(8..16)?);
        let packed = data.get(24..)?;
        if size > MAX_INFLATED {
            return None;
        }
        let out = match CompressionType(kind) {
            elf::ELFCOMPRESS_ZLIB => read_exactly(flate2::read::ZlibDecoder::new(packed), size)?,
            elf::ELFCOMPRESS_ZSTD => {
                read_exactly(ruzstd::decoding::StreamingDecoder::new(packed).ok()?, size)?
            }
            _ => return None,
        };
        Some(Cow::Owned(out))
    }

    /// Whether an executable section covers a link-time address.
    pub fn is_code(&self, address: u64) -> bool {
        self.sections.iter().any(|s| s.is_code() && s.addresses().contains(&address))
    }

    /// The bytes at link-time addresses from `address` to the end of its section.
    pub fn at_address(&self, address: u64) -> Option<&[u8]> {
        let section = self
            .sections
            .iter()
            .find(|s| s.is_loaded() && s.kind != elf::SHT_NOBITS && s.addresses().contains(&address))?;
        self.data(section).get(usize::try_from(address - section.address).ok()?..)
    }

    /// The GNU build-id in the notes.
    pub fn build_id(&self) -> Option<BuildId> {
        self.sections.iter().filter(|s| s.kind == elf::SHT_NOTE).find_map(|s| build_id_in(self.data(s)))
    }

    /// Whether a debugger would find functions and lines in here.
    pub fn has_dwarf(&self) -> bool {
        self.section(".debug_info").is_some_and(|s| s.kind != elf::SHT_NOBITS && s.size != 0)
    }
}

/// The GNU build-id in a sequence of notes.
pub(crate) fn build_id_in(mut notes: &[u8]) -> Option<BuildId> {
    while notes.len() >= 12 {
        let name_size = u32_of(&notes[0..4]) as usize;
        let size = u32_of(&notes[4..8]) as usize;
        let kind = u32_of(&notes[8..12]);
        let name_end = 12usize.checked_add(name_size)?;
        let start = name_end.checked_next_multiple_of(4)?;
        let end = start.checked_add(size)?;
        let descriptor = notes.get(start..end)?;
        if kind == elf::NT_GNU_BUILD_ID.0 && notes.get(12..name_end) == Some(b"GNU\0") {
            return BuildId::new(descriptor).ok();
        }
        notes = notes.get(end.checked_next_multiple_of(4)?..)?;
    }
    None
}

/// The number in four bytes; 0 for any other length.
pub(crate) fn u32_of(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().unwrap_or_default())
}

/// The number in eight bytes; 0 for any other length.
pub(crate) fn u64_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap_or_default())
}

fn read_exactly(reader: impl Read, size: u64) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    reader.take(size + 1).read_to_end(&mut out).ok()?;
    (out.len() as u64 == size).then_some(out)
}
