//! The few facts that are needed of every mapped ELF file: loaded segments and the build-id.
//!
//! They are read through a function, so that a file and the memory of a process are read alike. Bounded: a file header,
//! at most [`MAX_PROGRAM_HEADERS`] program headers, at most [`MAX_NOTE_BYTES`] of notes; where these have no build-id, at most
//! [`MAX_SECTION_HEADERS`] section headers.

use std::io;

use object::elf::{PF_X, PT_LOAD, PT_NOTE};
use profile::{BuildId, FileOffset, Svma};

use crate::header::{FileHeader, MAX_FILE_HEADER, Notes, ProgramHeader};
use crate::note::gnu_build_id;

/// Linkers make about ten; a file with more than this is not read.
const MAX_PROGRAM_HEADERS: u16 = 1024;
/// Sections that are searched for notes.
const MAX_SECTION_HEADERS: u16 = 1024;
/// Bytes of notes that are searched for a build-id.
const MAX_NOTE_BYTES: u64 = 1 << 16;

/// A part of an ELF file that is loaded into memory (`PT_LOAD`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First link-time address (`p_vaddr`).
    pub start: Svma,
    /// First link-time address after it (`p_vaddr + p_memsz`).
    pub limit: Svma,
    /// Position in the file (`p_offset`).
    pub file_offset: FileOffset,
    /// Bytes in the file (`p_filesz`).
    pub file_size: u64,
    /// Whether it is code (`PF_X`).
    pub executable: bool,
}

/// Loaded segments and build-id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// In the order of the program headers.
    pub segments: Vec<Segment>,
    /// The GNU build-id, if the notes have one.
    pub build_id: Option<BuildId>,
}

/// Fills a buffer from a position as far as it can, and returns how many bytes it read.
type ReadAt<'a> = &'a dyn Fn(&mut [u8], u64) -> io::Result<usize>;

impl Headers {
    /// Reads the headers of a 32-bit or 64-bit file. `None` if it is no little-endian ELF file.
    ///
    /// # Errors
    /// Those of `read_at`.
    pub fn read(read_at: ReadAt<'_>) -> io::Result<Option<Self>> {
        let mut bytes = [0; MAX_FILE_HEADER];
        let len = read_fully(read_at, &mut bytes, 0)?;
        let Some(file_header) = FileHeader::parse(&bytes[..len]) else { return Ok(None) };
        let (table, entry_size, count) = file_header.program_headers;
        let entry_size = usize::from(entry_size);
        if count == 0 || count > MAX_PROGRAM_HEADERS || entry_size != file_header.program_header_size() {
            return Ok(None);
        }
        let mut bytes = vec![0; entry_size * usize::from(count)];
        let len = read_fully(read_at, &mut bytes, table)?;

        let mut found = Self::default();
        let mut note_budget = MAX_NOTE_BYTES;
        let entries = bytes[..len].chunks_exact(entry_size);
        for header in entries.filter_map(|entry| file_header.program_header(entry)) {
            match header.kind {
                PT_LOAD => found.segments.extend(segment(&header)),
                PT_NOTE if found.build_id.is_none() => {
                    let notes = Notes { offset: header.offset, size: header.file_size, align: header.align };
                    found.build_id = build_id_in(read_at, notes, &mut note_budget)?;
                }
                _ => {}
            }
        }
        if found.build_id.is_none() {
            // Sections are no part of a program in memory, so what cannot be read there is not missing.
            found.build_id = build_id_in_sections(read_at, &file_header, &mut note_budget).unwrap_or(None);
        }
        Ok(Some(found))
    }
}

/// The build-id in some notes, as far as there is a budget of bytes.
fn build_id_in(read_at: ReadAt<'_>, notes: Notes, budget: &mut u64) -> io::Result<Option<BuildId>> {
    let size = notes.size.min(*budget);
    *budget -= size;
    let mut bytes = vec![0; size as usize];
    let len = read_fully(read_at, &mut bytes, notes.offset)?;
    Ok(gnu_build_id(&bytes[..len], if notes.align == 8 { 8 } else { 4 }))
}

/// The build-id in the sections of notes: Go's linker leaves it out of the segment of notes.
fn build_id_in_sections(
    read_at: ReadAt<'_>,
    header: &FileHeader,
    budget: &mut u64,
) -> io::Result<Option<BuildId>> {
    let (table, entry_size, count) = header.section_headers;
    let entry_size = usize::from(entry_size);
    if entry_size != header.section_header_size() {
        return Ok(None);
    }
    let mut bytes = vec![0; entry_size * usize::from(count.min(MAX_SECTION_HEADERS))];
    let len = read_fully(read_at, &mut bytes, table)?;
    for notes in bytes[..len].chunks_exact(entry_size).filter_map(|entry| header.notes_of_section(entry)) {
        if let Some(build_id) = build_id_in(read_at, notes, budget)? {
            return Ok(Some(build_id));
        }
    }
    Ok(None)
}

fn read_fully(read_at: ReadAt<'_>, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        let Some(at) = position.checked_add(done as u64).filter(|&at| i64::try_from(at).is_ok()) else {
            break;
        };
        match read_at(&mut buffer[done..], at) {
            Ok(0) => break,
            Ok(len) => done += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// `None` if its ends do not fit into an address space or a file.
fn segment(header: &ProgramHeader) -> Option<Segment> {
    header.offset.checked_add(header.file_size)?;
    Some(Segment {
        start: Svma(header.address),
        limit: Svma(header.address.checked_add(header.memory_size)?),
        file_offset: FileOffset(header.offset),
        file_size: header.file_size,
        executable: header.flags.0 & PF_X.0 != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::elf;
    use object::read::elf::{FileHeader as _, ProgramHeader as _};
    use proptest::prelude::*;

    fn slice(bytes: &[u8]) -> impl Fn(&mut [u8], u64) -> io::Result<usize> {
        move |buffer: &mut [u8], at: u64| {
            let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or(&[]);
            let len = rest.len().min(buffer.len());
            buffer[..len].copy_from_slice(&rest[..len]);
            Ok(len)
        }
    }

    #[test]
    fn agrees_with_another_reader() {
        for path in ["/proc/self/exe", "/bin/sh", "/bin/ls"] {
            let bytes = std::fs::read(path).unwrap();
            let headers = Headers::read(&slice(&bytes)).unwrap().unwrap();
            let file = object::read::elf::ElfFile64::<object::LittleEndian>::parse(&*bytes).unwrap();
            let id = object::Object::build_id(&file).unwrap().unwrap();
            assert_eq!(headers.build_id.unwrap().as_bytes(), id, "{path}");
            let endian = object::LittleEndian;
            let raw = elf::FileHeader64::<object::LittleEndian>::parse(&*bytes).unwrap();
            let loads = raw
                .program_headers(endian, &*bytes)
                .unwrap()
                .iter()
                .filter(|h| h.p_type(endian) == elf::PT_LOAD);
            let expected: Vec<Segment> = loads
                .map(|h| Segment {
                    start: Svma(h.p_vaddr(endian)),
                    limit: Svma(h.p_vaddr(endian) + h.p_memsz(endian)),
                    file_offset: FileOffset(h.p_offset(endian)),
                    file_size: h.p_filesz(endian),
                    executable: h.p_flags(endian).0 & PF_X.0 != 0,
                })
                .collect();
            assert_eq!(headers.segments, expected, "{path}");
        }
    }

    #[test]
    fn a_build_id_outside_of_the_segments_of_notes_is_found_by_its_section() {
        let bytes = std::fs::read("/bin/sh").unwrap();
        let whole = Headers::read(&slice(&bytes)).unwrap().unwrap();
        let at = u64::from_le_bytes(bytes[32..40].try_into().unwrap()) as usize;
        let mut hidden = bytes.clone();
        for entry in hidden[at..].chunks_exact_mut(56).take(bytes[56].into()) {
            if entry[..4] == PT_NOTE.0.to_le_bytes() {
                entry[..4].fill(0);
            }
        }
        assert_eq!(Headers::read(&slice(&hidden)).unwrap().unwrap(), whole);
        let sections = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
        let cut = Headers::read(&slice(&hidden[..sections])).unwrap().unwrap();
        assert_eq!((cut.segments, cut.build_id), (whole.segments, None));
    }

    #[test]
    fn a_32_bit_file_is_read() {
        let mut bytes = b"\x7fELF\x01\x01\x01".to_vec();
        bytes.resize(52, 0);
        bytes[28] = 52;
        bytes[42] = 32;
        bytes[44] = 1;
        for word in [1u32, 0x1000, 0x8000, 0x8000, 0x200, 0x300, 5, 0x1000] {
            bytes.extend(word.to_le_bytes());
        }
        let segment = Segment {
            start: Svma(0x8000),
            limit: Svma(0x8300),
            file_offset: FileOffset(0x1000),
            file_size: 0x200,
            executable: true,
        };
        assert_eq!(Headers::read(&slice(&bytes)).unwrap().unwrap().segments, [segment]);
        assert_eq!(Headers::read(&slice(&bytes[..51])).unwrap(), None);
    }

    #[test]
    fn other_files_are_refused() {
        assert_eq!(Headers::read(&slice(b"")).unwrap(), None);
        assert_eq!(Headers::read(&slice(b"#!/bin/sh\n")).unwrap(), None);
        assert_eq!(Headers::read(&slice(b"\x7fELF\x02\x02")).unwrap(), None, "other byte order");
        assert_eq!(
            Headers::read(&slice(&[b"\x7fELF\x02\x01".as_slice(), &[0xff; 80]].concat())).unwrap(),
            None
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn a_damaged_header_does_no_harm(
            damage in proptest::collection::vec((0usize..1024, any::<u8>()), 1..20), len in 0usize..1024,
        ) {
            let mut bytes = std::fs::read("/bin/sh").unwrap();
            for (at, byte) in damage {
                bytes[at] = byte;
            }
            bytes.truncate(len * 64);
            bytes.splice(..bytes.len().min(6), b"\x7fELF\x02\x01".iter().copied());
            if let Some(headers) = Headers::read(&slice(&bytes)).unwrap() {
                prop_assert!(headers.segments.iter().all(|segment| segment.start <= segment.limit));
            }
        }
    }
}
