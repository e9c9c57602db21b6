//! Private copies of debug information, which are safe to give to the DWARF reader.
//!
//! A file can name other files (`.gnu_debuglink`, `.gnu_debugaltlink`), and the DWARF reader would open them, whatever they
//! are. Its compressed sections may expand without limit. The reader therefore gets a small ELF file in memory instead. It
//! holds the sections that the reader needs, decompressed within bounds, and it links only to a supplementary file that was
//! found and checked before.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsRawFd as _;

use elf::Section;
use elf::constants::{self, Machine};
use profile::BuildId;
use rustix::fs::MemfdFlags;

use crate::elf_file::ElfFile;
use crate::symtab;

/// All sections of one copy together stay below this.
const MAX_COPY: u64 = 2 << 30;

/// Bytes of a symbol table that are copied.
const MAX_SYMBOLS: usize = symtab::MAX_BYTES as usize;

/// Bytes that are written before the memory of the original is released.
const PART: usize = 16 << 20;

/// Bytes that are left out if they are all zero: the memory of a copy has no page there.
const BLOCK: usize = 64 << 10;

const ALTERNATE_LINK: &str = ".gnu_debugaltlink";
const LINKS: [&[u8]; 3] = [b".gnu_debuglink", ALTERNATE_LINK.as_bytes(), b".debug_sup"];

/// Whether the DWARF reader must get a copy of the file.
pub(crate) fn needs_copy(file: &ElfFile) -> bool {
    file.sections().iter().any(|s| {
        LINKS.contains(&&*s.name)
            || s.is_compressed()
            || (s.kind == constants::SHT_SYMTAB && s.size > symtab::MAX_BYTES)
            || s.name.starts_with(b".zdebug_")
            // Files with such relocations were never linked.
            || (s.kind == constants::SHT_RELA && s.name.starts_with(b".rela.debug"))
    })
}

/// The path and the build-id of the supplementary file that the file names.
pub(crate) fn alternate_link(file: &ElfFile) -> Option<(String, BuildId)> {
    let data = file.data(file.section(ALTERNATE_LINK)?);
    let end = data.iter().position(|b| *b == 0)?;
    let path = std::str::from_utf8(&data[..end]).ok()?;
    Some((path.to_owned(), BuildId::new(&data[end + 1..]).ok()?))
}

/// The supplementary file for a copy: where to open it, and its build-id.
pub(crate) struct Alternate<'a> {
    pub path: &'a str,
    pub build_id: &'a BuildId,
}

/// Writes the copy into memory. The sum of its sections is its size.
///
/// # Errors
/// Those of `memfd_create(2)` and of writing; [`io::ErrorKind::InvalidData`] for sections that cannot be
/// decompressed, and [`io::ErrorKind::FileTooLarge`] for more than 2 GiB of them.
pub(crate) fn copy(file: &ElfFile, alternate: Option<&Alternate<'_>>) -> io::Result<File> {
    let memory = rustix::fs::memfd_create("debug-info", MemfdFlags::CLOEXEC)?;
    let mut out = Writer { file: File::from(memory), headers: vec![[0; 64]], names: vec![0], end: 64 };
    out.file.seek(SeekFrom::Start(64))?;
    for section in file.sections() {
        let wanted = section.name.starts_with(b".debug_")
            || *section.name == *b".note.gnu.build-id"
            || section.kind == constants::SHT_SYMTAB;
        if !wanted || LINKS.contains(&&*section.name) || section.kind == constants::SHT_NOBITS {
            continue;
        }
        let data = file.decompressed(section).ok_or(io::ErrorKind::InvalidData)?;
        // In the copy, the strings directly follow their symbols.
        let position = out.headers.len() as u32;
        let link = if section.kind == constants::SHT_SYMTAB { position + 1 } else { 0 };
        let data = &data[..if link == 0 { data.len() } else { data.len().min(MAX_SYMBOLS) }];
        out.section(section, data, link, file)?;
        if section.kind == constants::SHT_SYMTAB
            && let Some(strings) = file.sections().get(section.link as usize)
        {
            let data = file.decompressed(strings).ok_or(io::ErrorKind::InvalidData)?;
            out.section(strings, &data, 0, file)?;
        }
    }
    if let Some(alternate) = alternate {
        let mut link = alternate.path.as_bytes().to_vec();
        link.push(0);
        link.extend_from_slice(alternate.build_id.as_bytes());
        out.add(ALTERNATE_LINK.as_bytes(), [constants::SHT_PROGBITS.0.into(), 0, 0, 1, 0], &link, &|| {})?;
    }
    out.finish(file.machine())
}

/// A path that opens the file for as long as it is open in this process.
pub(crate) fn descriptor_path(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

struct Writer {
    file: File,
    headers: Vec<[u8; 64]>,
    names: Vec<u8>,
    end: u64,
}

impl Writer {
    fn section(&mut self, section: &Section, data: &[u8], link: u32, of: &ElfFile) -> io::Result<()> {
        let fields = [section.kind.0.into(), section.address, link.into(), section.align, section.entry_size];
        self.add(&section.name, fields, data, &|| of.release())
    }

    /// `fields`: type, address, link, alignment, size of an entry. `written` is called now and then.
    fn add(&mut self, name: &[u8], fields: [u64; 5], data: &[u8], written: &dyn Fn()) -> io::Result<()> {
        if self.end + data.len() as u64 > MAX_COPY {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let [kind, address, link, align, entry_size] = fields;
        let mut header = [0; 64];
        header[0..4].copy_from_slice(&(self.names.len() as u32).to_le_bytes());
        header[4..8].copy_from_slice(&(kind as u32).to_le_bytes());
        header[16..24].copy_from_slice(&address.to_le_bytes());
        header[24..32].copy_from_slice(&self.end.to_le_bytes());
        header[32..40].copy_from_slice(&(data.len() as u64).to_le_bytes());
        header[40..44].copy_from_slice(&(link as u32).to_le_bytes());
        header[48..56].copy_from_slice(&align.to_le_bytes());
        header[56..64].copy_from_slice(&entry_size.to_le_bytes());
        self.headers.push(header);
        self.names.extend_from_slice(name);
        self.names.push(0);
        for part in data.chunks(PART) {
            part.chunks(BLOCK).try_for_each(|block| self.write_or_skip(block))?;
            written();
        }
        let padding = data.len().next_multiple_of(16) - data.len();
        self.file.write_all(&[0; 16][..padding])?;
        self.end += (data.len() + padding) as u64;
        Ok(())
    }

    /// Writes a block, or leaves a hole for zeros: the copy of a sparse file is sparse.
    fn write_or_skip(&mut self, block: &[u8]) -> io::Result<()> {
        if block.len() == BLOCK && block.iter().all(|byte| *byte == 0) {
            self.file.seek_relative(BLOCK as i64)
        } else {
            self.file.write_all(block)
        }
    }

    fn finish(mut self, machine: Machine) -> io::Result<File> {
        let names_index = self.headers.len() as u16;
        let mut names = self.names.clone();
        names.extend_from_slice(b".shstrtab\0");
        self.add(b".shstrtab", [constants::SHT_STRTAB.0.into(), 0, 0, 1, 0], &names, &|| {})?;
        for header in &self.headers {
            self.file.write_all(header)?;
        }
        let mut header = [0; 64];
        // 64 bit, little-endian, version 1.
        header[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
        header[16..18].copy_from_slice(&constants::ET_DYN.0.to_le_bytes());
        header[18..20].copy_from_slice(&machine.0.to_le_bytes());
        header[20..24].copy_from_slice(&1u32.to_le_bytes());
        header[40..48].copy_from_slice(&self.end.to_le_bytes());
        for (at, value) in [(52, 64), (54, 56), (58, 64), (60, self.headers.len() as u16), (62, names_index)]
        {
            header[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&header)?;
        Ok(self.file)
    }
}
