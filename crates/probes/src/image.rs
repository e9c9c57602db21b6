//! The bytes of an ELF file with its layout: addresses, offsets in the file, code.

use std::ops::{Deref, Range};

use elf::constants::{EM_X86_64, PF_W, PF_X};
use elf::{Layout, ProgramHeader};
use sys::filemap::FileMap;

/// Bytes, mapped or in memory.
#[derive(Debug)]
pub(crate) enum Bytes {
    Mapped(FileMap),
    Memory(Vec<u8>),
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

/// An ELF file.
#[derive(Debug)]
pub(crate) struct Image {
    pub bytes: Bytes,
    pub layout: Layout,
}

impl Image {
    /// `None` if it is no 64-bit little-endian ELF file.
    pub fn parse(bytes: Bytes) -> Option<Self> {
        Layout::parse(&bytes).map(|layout| Self { bytes, layout })
    }

    /// Whether instructions are those of x86-64.
    pub fn is_x86(&self) -> bool {
        self.layout.machine == EM_X86_64
    }

    /// Whether Go's compiler made it, which passes arguments in registers of its own.
    pub fn is_go(&self) -> bool {
        self.layout.section(b".gopclntab").is_some() || self.layout.section(b".go.buildinfo").is_some()
    }

    /// Where an address of code is in the file: its value, less the segment's address, plus the segment's offset.
    pub fn code_offset(&self, address: u64) -> Option<u64> {
        offset_in(self.code_segments(), address)
    }

    /// Where an address of data that the program may write is in the file.
    pub fn data_offset(&self, address: u64) -> Option<u64> {
        offset_in(self.layout.load_segments().filter(|segment| segment.flags.0 & PF_W.0 != 0), address)
    }

    /// The address of code at an offset in the file.
    pub fn code_address(&self, offset: u64) -> Option<u64> {
        let segment = self.code_segments().find(|segment| {
            offset.checked_sub(segment.offset).is_some_and(|inside| inside < segment.file_size)
        })?;
        segment.address.checked_add(offset - segment.offset)
    }

    /// The bytes of code at these addresses, as far as they are in one segment.
    pub fn code(&self, addresses: Range<u64>) -> &[u8] {
        let code = || {
            let start = usize::try_from(self.code_offset(addresses.start)?).ok()?;
            let in_segment = self.layout.file_range_at(addresses.start)?.end.checked_sub(start)?;
            let len = usize::try_from(addresses.end.checked_sub(addresses.start)?).unwrap_or(usize::MAX);
            self.bytes.get(start..start.checked_add(len.min(in_segment))?)
        };
        code().unwrap_or_default()
    }

    fn code_segments(&self) -> impl Iterator<Item = &ProgramHeader> {
        self.layout.load_segments().filter(|segment| segment.flags.0 & PF_X.0 != 0)
    }
}

fn offset_in<'s>(mut segments: impl Iterator<Item = &'s ProgramHeader>, address: u64) -> Option<u64> {
    let holds = |segment: &&ProgramHeader| {
        address.checked_sub(segment.address).is_some_and(|inside| inside < segment.file_size)
    };
    let segment = segments.find(holds)?;
    segment.offset.checked_add(address - segment.address)
}
