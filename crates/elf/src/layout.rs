//! Where the segments and sections of a 64-bit ELF file are.

use std::ops::Range;

use object::LittleEndian as LE;
use object::elf::{FileHeader64, Machine, PT_LOAD, SHT_NOTE, SectionHeader64};
use object::read::elf::{FileHeader as _, SectionHeader as _};
use profile::BuildId;

use crate::header::{FileHeader, ProgramHeader};
use crate::note::gnu_build_id;
use crate::section::Section;

/// Program headers that are read; linkers make about ten.
const MAX_PROGRAM_HEADERS: u16 = 256;
/// Sections that are read. Linked files have fewer than a hundred.
/// Bytes of notes that are read in all: sections may overlap, so together they may be longer than the file.
const MAX_NOTE_BYTES: usize = 1 << 20;
const MAX_SECTIONS: usize = 1 << 16;
/// No section that is looked for has a longer name.
const MAX_NAME: usize = 256;

/// The positions of a file's parts. It holds no bytes: methods that return some take the file.
#[derive(Clone, Debug)]
pub struct Layout {
    /// `e_machine`
    pub machine: Machine,
    /// `e_entry`
    pub entry: u64,
    /// Program headers with at least one byte in the file; [`ProgramHeader::file_size`] ends with the file.
    pub program_headers: Vec<ProgramHeader>,
    /// The sections by their index; empty where there is no section table.
    pub sections: Vec<Section>,
    /// There is a section table, and it makes no sense.
    pub has_damaged_sections: bool,
}

impl Layout {
    /// `None` if the file does not begin with the header of a 64-bit little-endian ELF file.
    #[must_use]
    pub fn parse(file: &[u8]) -> Option<Self> {
        let header = FileHeader::parse(file).filter(|header| header.is_64)?;
        let sections = sections(file);
        Some(Self {
            machine: header.machine,
            entry: header.entry,
            program_headers: program_headers(&header, file),
            has_damaged_sections: sections.is_none(),
            sections: sections.unwrap_or_default(),
        })
    }

    /// The first section with this name.
    #[must_use]
    pub fn section(&self, name: &[u8]) -> Option<&Section> {
        self.sections.iter().find(|section| *section.name == *name)
    }

    /// The segments that are loaded into memory.
    pub fn load_segments(&self) -> impl Iterator<Item = &ProgramHeader> {
        self.program_headers.iter().filter(|header| header.kind == PT_LOAD)
    }

    /// The position in the file of a link-time address, up to the end of its segment.
    #[must_use]
    #[inline]
    pub fn file_range_at(&self, address: u64) -> Option<Range<usize>> {
        let holds = |s: &&ProgramHeader| address >= s.address && address - s.address < s.file_size;
        let segment = self.load_segments().find(holds)?;
        let start = segment.offset + (address - segment.address);
        Some(usize::try_from(start).ok()?..usize::try_from(segment.offset + segment.file_size).ok()?)
    }

    /// The bytes from a link-time address to the end of its segment, or of its section in files without segments.
    #[must_use]
    #[inline]
    pub fn bytes_at<'f>(&self, file: &'f [u8], address: u64) -> Option<&'f [u8]> {
        if let Some(range) = self.file_range_at(address) {
            return file.get(range);
        }
        let holds = |s: &&Section| s.is_loaded() && s.is_in_file() && s.addresses().contains(&address);
        let section = self.sections.iter().find(holds)?;
        section.bytes(file)?.get(usize::try_from(address - section.address).ok()?..)
    }

    /// The GNU build-id in the sections with notes.
    #[must_use]
    pub fn build_id(&self, file: &[u8]) -> Option<BuildId> {
        let mut left = MAX_NOTE_BYTES;
        let mut notes = self.sections.iter().filter(|section| section.kind == SHT_NOTE);
        notes.find_map(|section| {
            let bytes = section.bytes(file)?;
            let bytes = &bytes[..bytes.len().min(left)];
            left -= bytes.len();
            gnu_build_id(bytes, if section.align == 8 { 8 } else { 4 })
        })
    }
}

fn program_headers(header: &FileHeader, file: &[u8]) -> Vec<ProgramHeader> {
    let (table, entry_size, count) = header.program_headers;
    let entry_size = usize::from(entry_size);
    let table = usize::try_from(table).ok().and_then(|at| file.get(at..)).unwrap_or_default();
    if entry_size != header.program_header_size() {
        return Vec::new();
    }
    let entries = table.chunks_exact(entry_size).take(count.min(MAX_PROGRAM_HEADERS).into());
    let clipped = entries.filter_map(|entry| header.program_header(entry)).map(|header| {
        let left = (file.len() as u64).saturating_sub(header.offset).min(u64::MAX - header.address);
        ProgramHeader { file_size: header.file_size.min(left), ..header }
    });
    clipped.filter(|header| header.file_size > 0).collect()
}

/// `None` if there is a section table that makes no sense.
fn sections(file: &[u8]) -> Option<Vec<Section>> {
    let header = FileHeader64::<LE>::parse(file).ok()?;
    let table: &[SectionHeader64<LE>] = header.section_headers(LE, file).ok()?;
    if table.is_empty() {
        return Some(Vec::new());
    }
    if table.len() > MAX_SECTIONS {
        return None;
    }
    let names = table.get(usize::try_from(header.shstrndx(LE, file).ok()?).ok()?)?;
    let names = names.data(LE, file).ok()?;
    let name = |at: u32| {
        let name = names.get(at as usize..)?;
        let name = &name[..name.len().min(MAX_NAME)];
        Some(&name[..name.iter().position(|byte| *byte == 0)?])
    };
    let section = |header: &SectionHeader64<LE>| Section {
        name: name(header.sh_name.get(LE)).unwrap_or_default().into(),
        kind: header.sh_type(LE),
        flags: header.sh_flags(LE),
        address: header.sh_addr(LE),
        offset: header.sh_offset(LE),
        size: header.sh_size(LE),
        link: header.sh_link(LE),
        align: header.sh_addralign(LE),
        entry_size: header.sh_entsize(LE),
    };
    Some(table.iter().map(section).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{Object as _, ObjectSection as _, ObjectSegment as _};
    use proptest::prelude::*;

    #[test]
    fn agrees_with_another_reader() {
        for path in ["/proc/self/exe", "/bin/sh", "/bin/ls"] {
            let file = std::fs::read(path).unwrap();
            let layout = Layout::parse(&file).unwrap();
            let other = object::File::parse(&*file).unwrap();
            assert_eq!(layout.build_id(&file).unwrap().as_bytes(), other.build_id().unwrap().unwrap());
            assert_eq!(layout.entry, other.entry());
            for section in other.sections() {
                let ours = layout.section(section.name_bytes().unwrap()).unwrap();
                assert_eq!((ours.address, ours.size), (section.address(), section.size()));
                assert_eq!(ours.bytes(&file).unwrap_or_default(), section.data().unwrap());
            }
            for segment in other.segments() {
                let data = segment.data().unwrap();
                assert_eq!(layout.bytes_at(&file, segment.address() + 1), data.get(1..));
            }
        }
    }

    #[test]
    fn a_damaged_section_table_leaves_the_segments() {
        let mut file = std::fs::read("/bin/sh").unwrap();
        file[40..48].fill(0xff);
        let layout = Layout::parse(&file).unwrap();
        assert!(layout.has_damaged_sections && layout.sections.is_empty());
        assert!(layout.bytes_at(&file, layout.entry).is_some());
        file[40..48].fill(0);
        assert!(!Layout::parse(&file).unwrap().has_damaged_sections);
        assert!(Layout::parse(&file[..63]).is_none());
    }

    #[test]
    fn long_names_are_not_kept() {
        let mut file = std::fs::read("/bin/sh").unwrap();
        let layout = Layout::parse(&file).unwrap();
        let names = layout.section(b".shstrtab").unwrap().file_range(file.len()).unwrap();
        let start = file.len();
        file.extend(vec![b'x'; 100 << 10]);
        // The table of names is now one long name.
        file.extend([0]);
        let at = u64::from_le_bytes(file[40..48].try_into().unwrap()) as usize;
        let index = usize::from(u16::from_le_bytes(file[62..64].try_into().unwrap()));
        file[at + 64 * index + 24..][..8].copy_from_slice(&(start as u64).to_le_bytes());
        file[at + 64 * index + 32..][..8].copy_from_slice(&((100u64 << 10) + 1).to_le_bytes());
        let layout = Layout::parse(&file).unwrap();
        assert!(!names.is_empty() && !layout.sections.is_empty());
        assert!(layout.sections.iter().all(|section| section.name.is_empty()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn a_damaged_file_does_no_harm(
            damage in proptest::collection::vec((any::<usize>(), any::<u8>(), any::<bool>()), 1..20),
            len in 0usize..1024,
        ) {
            let mut file = std::fs::read("/bin/sh").unwrap();
            let table = u64::from_le_bytes(file[40..48].try_into().unwrap()) as usize;
            for (at, byte, in_table) in damage {
                let (start, len) = if in_table { (table, file.len() - table) } else { (0, 1024) };
                file[start + at % len] = byte;
            }
            if len < 512 {
                file.truncate(len * 256);
            }
            if let Some(layout) = Layout::parse(&file) {
                for section in &layout.sections {
                    let _ = section.decompressed(&file, 1 << 20);
                    let _ = layout.bytes_at(&file, section.address);
                }
                for header in &layout.program_headers {
                    let _ = layout.bytes_at(&file, header.address);
                }
                let _ = layout.build_id(&file);
            }
        }
    }
}
