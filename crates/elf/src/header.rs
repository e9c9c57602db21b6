//! The file header, the program headers and where notes are, of 32-bit and 64-bit files.

use object::LittleEndian as LE;
use object::elf::{
    ELFCLASS32, ELFCLASS64, ELFDATA2LSB, ELFMAG, FileHeader32, FileHeader64, Machine, ProgramFlags,
    ProgramHeader32, ProgramHeader64, ProgramType, SHT_NOTE, SectionHeader32, SectionHeader64,
};
use object::pod;

/// Bytes of the longest file header.
pub(crate) const MAX_FILE_HEADER: usize = size_of::<FileHeader64<LE>>();

/// What the file header says about the program headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileHeader {
    pub is_64: bool,
    pub machine: Machine,
    pub entry: u64,
    /// Position, size of an entry, number of entries.
    pub program_headers: (u64, u16, u16),
    /// The same of the section headers.
    pub section_headers: (u64, u16, u16),
}

/// Where notes are in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notes {
    pub offset: u64,
    pub size: u64,
    pub align: u64,
}

/// One program header.
#[derive(Clone, Copy, Debug)]
pub struct ProgramHeader {
    /// `p_type`
    pub kind: ProgramType,
    /// `p_flags`
    pub flags: ProgramFlags,
    /// `p_offset`
    pub offset: u64,
    /// Link-time address, `p_vaddr`.
    pub address: u64,
    /// Bytes in the file, `p_filesz`.
    pub file_size: u64,
    /// Bytes in memory, `p_memsz`.
    pub memory_size: u64,
    /// `p_align`
    pub align: u64,
}

impl FileHeader {
    /// `None` if the bytes do not begin with the header of a little-endian ELF file.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.get(..4)? != ELFMAG || *bytes.get(5)? != ELFDATA2LSB.0 {
            return None;
        }
        match *bytes.get(4)? {
            class if class == ELFCLASS64.0 => {
                let (header, _) = pod::from_bytes::<FileHeader64<LE>>(bytes).ok()?;
                Some(Self {
                    is_64: true,
                    machine: header.e_machine.get(LE),
                    entry: header.e_entry.get(LE),
                    program_headers: (
                        header.e_phoff.get(LE),
                        header.e_phentsize.get(LE),
                        header.e_phnum.get(LE),
                    ),
                    section_headers: (
                        header.e_shoff.get(LE),
                        header.e_shentsize.get(LE),
                        header.e_shnum.get(LE),
                    ),
                })
            }
            class if class == ELFCLASS32.0 => {
                let (header, _) = pod::from_bytes::<FileHeader32<LE>>(bytes).ok()?;
                Some(Self {
                    is_64: false,
                    machine: header.e_machine.get(LE),
                    entry: header.e_entry.get(LE).into(),
                    program_headers: (
                        header.e_phoff.get(LE).into(),
                        header.e_phentsize.get(LE),
                        header.e_phnum.get(LE),
                    ),
                    section_headers: (
                        header.e_shoff.get(LE).into(),
                        header.e_shentsize.get(LE),
                        header.e_shnum.get(LE),
                    ),
                })
            }
            _ => None,
        }
    }

    /// The size that an entry of the program headers has in such a file.
    pub(crate) fn program_header_size(&self) -> usize {
        if self.is_64 { size_of::<ProgramHeader64<LE>>() } else { size_of::<ProgramHeader32<LE>>() }
    }

    /// The size that an entry of the section headers has in such a file.
    pub(crate) fn section_header_size(&self) -> usize {
        if self.is_64 { size_of::<SectionHeader64<LE>>() } else { size_of::<SectionHeader32<LE>>() }
    }

    /// Where the notes of a section are. `None` if it has none.
    pub(crate) fn notes_of_section(&self, entry: &[u8]) -> Option<Notes> {
        let (kind, notes) = if self.is_64 {
            let (header, _) = pod::from_bytes::<SectionHeader64<LE>>(entry).ok()?;
            let (offset, size) = (header.sh_offset.get(LE), header.sh_size.get(LE));
            (header.sh_type.get(LE), Notes { offset, size, align: header.sh_addralign.get(LE) })
        } else {
            let (header, _) = pod::from_bytes::<SectionHeader32<LE>>(entry).ok()?;
            let (offset, size) = (header.sh_offset.get(LE).into(), header.sh_size.get(LE).into());
            (header.sh_type.get(LE), Notes { offset, size, align: header.sh_addralign.get(LE).into() })
        };
        (kind == SHT_NOTE).then_some(notes)
    }

    /// Reads one entry.
    pub(crate) fn program_header(&self, entry: &[u8]) -> Option<ProgramHeader> {
        if self.is_64 {
            let (header, _) = pod::from_bytes::<ProgramHeader64<LE>>(entry).ok()?;
            Some(ProgramHeader {
                kind: header.p_type.get(LE),
                flags: header.p_flags.get(LE),
                offset: header.p_offset.get(LE),
                address: header.p_vaddr.get(LE),
                file_size: header.p_filesz.get(LE),
                memory_size: header.p_memsz.get(LE),
                align: header.p_align.get(LE),
            })
        } else {
            let (header, _) = pod::from_bytes::<ProgramHeader32<LE>>(entry).ok()?;
            Some(ProgramHeader {
                kind: header.p_type.get(LE),
                flags: header.p_flags.get(LE),
                offset: header.p_offset.get(LE).into(),
                address: header.p_vaddr.get(LE).into(),
                file_size: header.p_filesz.get(LE).into(),
                memory_size: header.p_memsz.get(LE).into(),
                align: header.p_align.get(LE).into(),
            })
        }
    }
}
