//! The file header and the program headers, of 32-bit and 64-bit files.

use object::LittleEndian as LE;
use object::elf::{
    ELFCLASS32, ELFCLASS64, ELFDATA2LSB, ELFMAG, FileHeader32, FileHeader64, Machine, ProgramFlags,
    ProgramHeader32, ProgramHeader64, ProgramType,
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
                })
            }
            _ => None,
        }
    }

    /// The size that an entry of the program headers has in such a file.
    pub(crate) fn program_header_size(&self) -> usize {
        if self.is_64 { size_of::<ProgramHeader64<LE>>() } else { size_of::<ProgramHeader32<LE>>() }
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
