//! The little that is read of every mapped ELF file: program headers and build-id.
//!
//! Reads go through a function, so that a file and the memory of a process are read alike. Bounded: a header of 64
//! bytes, at most [`MAX_HEADERS`] program headers, at most [`MAX_NOTE_BYTES`] of notes.

use std::io;

use profile::{BuildId, FileOffset, Svma};

/// More program headers than this are no file of a linker.
const MAX_HEADERS: u16 = 1024;
/// Bytes of notes that are looked through for a build-id.
const MAX_NOTE_BYTES: u64 = 1 << 16;

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PF_X: u32 = 1;
const NT_GNU_BUILD_ID: u32 = 3;

/// A part of an ELF file that is loaded into memory (`PT_LOAD`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First link-time address (`p_vaddr`).
    pub start: Svma,
    /// First link-time address behind it (`p_vaddr + p_memsz`).
    pub limit: Svma,
    /// Position in the file (`p_offset`).
    pub file_offset: FileOffset,
    /// Bytes in the file (`p_filesz`).
    pub file_size: u64,
    /// Whether it is code (`PF_X`).
    pub executable: bool,
}

/// What the headers say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Headers {
    pub segments: Vec<Segment>,
    pub build_id: Option<BuildId>,
}

struct ProgramHeader {
    kind: u32,
    flags: u32,
    offset: u64,
    vaddr: u64,
    file_size: u64,
    mem_size: u64,
    align: u64,
}

/// Reads the headers through `read_at`, which fills the buffer from a position as far as it can. None if it is no
/// ELF file of this machine's byte order.
///
/// # Errors
/// Those of `read_at`.
pub(crate) fn read(read_at: &dyn Fn(&mut [u8], u64) -> io::Result<usize>) -> io::Result<Option<Headers>> {
    let mut header = [0; 64];
    let len = read_fully(read_at, &mut header, 0)?;
    let header = &header[..len];
    let data = if cfg!(target_endian = "little") { 1 } else { 2 };
    let (wide, table, entry_size, count) = match header {
        [0x7f, b'E', b'L', b'F', 2, order, ..] if *order == data => {
            (true, u64_at(header, 32), u16_at(header, 54), u16_at(header, 56))
        }
        [0x7f, b'E', b'L', b'F', 1, order, ..] if *order == data => {
            (false, u32_at(header, 28).map(u64::from), u16_at(header, 42), u16_at(header, 44))
        }
        _ => return Ok(None),
    };
    let (Some(table), Some(entry_size), Some(count)) = (table, entry_size, count) else { return Ok(None) };
    let entry_size = usize::from(entry_size);
    if count == 0 || count > MAX_HEADERS || entry_size != if wide { 56 } else { 32 } {
        return Ok(None);
    }
    let mut bytes = vec![0; entry_size * usize::from(count)];
    let len = read_fully(read_at, &mut bytes, table)?;
    let headers = bytes[..len].chunks_exact(entry_size).filter_map(|entry| program_header(entry, wide));

    let mut found = Headers::default();
    let mut note_budget = MAX_NOTE_BYTES;
    for header in headers {
        match header.kind {
            PT_LOAD => found.segments.extend(segment(&header)),
            PT_NOTE if found.build_id.is_none() => {
                let size = header.file_size.min(note_budget);
                note_budget -= size;
                let mut notes = vec![0; size as usize];
                let len = read_fully(read_at, &mut notes, header.offset)?;
                found.build_id = build_id(&notes[..len], if header.align == 8 { 8 } else { 4 });
            }
            _ => {}
        }
    }
    Ok(Some(found))
}

fn read_fully(
    read_at: &dyn Fn(&mut [u8], u64) -> io::Result<usize>,
    buffer: &mut [u8],
    position: u64,
) -> io::Result<usize> {
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

fn program_header(entry: &[u8], wide: bool) -> Option<ProgramHeader> {
    let kind = u32_at(entry, 0)?;
    if wide {
        Some(ProgramHeader {
            kind,
            flags: u32_at(entry, 4)?,
            offset: u64_at(entry, 8)?,
            vaddr: u64_at(entry, 16)?,
            file_size: u64_at(entry, 32)?,
            mem_size: u64_at(entry, 40)?,
            align: u64_at(entry, 48)?,
        })
    } else {
        let word = |at| u32_at(entry, at).map(u64::from);
        Some(ProgramHeader {
            kind,
            flags: u32_at(entry, 24)?,
            offset: word(4)?,
            vaddr: word(8)?,
            file_size: word(16)?,
            mem_size: word(20)?,
            align: word(28)?,
        })
    }
}

/// None if its ends do not fit into an address space or a file.
fn segment(header: &ProgramHeader) -> Option<Segment> {
    header.offset.checked_add(header.file_size)?;
    Some(Segment {
        start: Svma(header.vaddr),
        limit: Svma(header.vaddr.checked_add(header.mem_size)?),
        file_offset: FileOffset(header.offset),
        file_size: header.file_size,
        executable: header.flags & PF_X != 0,
    })
}

/// The GNU build-id among notes that are aligned to `align` bytes.
fn build_id(mut notes: &[u8], align: usize) -> Option<BuildId> {
    loop {
        let name_size = usize::try_from(u32_at(notes, 0)?).ok()?;
        let desc_size = usize::try_from(u32_at(notes, 4)?).ok()?;
        let kind = u32_at(notes, 8)?;
        let name_end = 12usize.checked_add(name_size)?;
        let desc_start = name_end.checked_next_multiple_of(align)?;
        let desc_end = desc_start.checked_add(desc_size)?;
        let name = notes.get(12..name_end)?;
        let desc = notes.get(desc_start..desc_end)?;
        if kind == NT_GNU_BUILD_ID && name == b"GNU\0" {
            return BuildId::new(desc).ok();
        }
        notes = notes.get(desc_end.checked_next_multiple_of(align)?..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::elf;
    use object::read::elf::{FileHeader, ProgramHeader as _};
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
            let headers = read(&slice(&bytes)).unwrap().unwrap();
            let file = object::read::elf::ElfFile64::<object::NativeEndian>::parse(&*bytes).unwrap();
            let id = object::Object::build_id(&file).unwrap().unwrap();
            assert_eq!(headers.build_id.unwrap().as_bytes(), id, "{path}");
            let endian = object::NativeEndian;
            let raw = elf::FileHeader64::<object::NativeEndian>::parse(&*bytes).unwrap();
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
                    executable: h.p_flags(endian).0 & PF_X != 0,
                })
                .collect();
            assert_eq!(headers.segments, expected, "{path}");
        }
    }

    #[test]
    fn finds_the_build_id_behind_other_notes() {
        let note = |kind: u32, name: &[u8], desc: &[u8], align: usize| {
            let mut bytes = Vec::new();
            for word in [name.len() as u32, desc.len() as u32, kind] {
                bytes.extend(word.to_ne_bytes());
            }
            bytes.extend(name);
            bytes.resize(bytes.len().next_multiple_of(align), 0);
            bytes.extend(desc);
            bytes.resize(bytes.len().next_multiple_of(align), 0);
            bytes
        };
        let wanted = note(3, b"GNU\0", &[9; 20], 4);
        let bytes = [note(5, b"GNU\0", &[1; 5], 4), note(3, b"Go\0\0", &[2; 20], 4), wanted].concat();
        assert_eq!(build_id(&bytes, 4).unwrap().as_bytes(), [9; 20]);
        let bytes = [note(5, b"GNU\0", &[1; 5], 8), note(3, b"GNU\0", &[7; 8], 8)].concat();
        assert_eq!(build_id(&bytes, 8).unwrap().as_bytes(), [7; 8]);
        assert_eq!(build_id(&note(3, b"GNU\0", &[0; 2], 4), 4), None, "too short for a build-id");
        assert_eq!(build_id(&[0xff; 64], 4), None);
    }

    #[test]
    fn refuses_what_is_no_elf() {
        assert_eq!(read(&slice(b"")).unwrap(), None);
        assert_eq!(read(&slice(b"#!/bin/sh\n")).unwrap(), None);
        assert_eq!(read(&slice(b"\x7fELF\x02\x02")).unwrap(), None, "other byte order");
        assert_eq!(read(&slice(&[b"\x7fELF\x02\x01".as_slice(), &[0xff; 80]].concat())).unwrap(), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn a_damaged_header_is_stood(
            damage in proptest::collection::vec((0usize..1024, any::<u8>()), 1..20), len in 0usize..1024,
        ) {
            let mut bytes = std::fs::read("/bin/sh").unwrap();
            for (at, byte) in damage {
                bytes[at] = byte;
            }
            bytes.truncate(len * 64);
            bytes.splice(..bytes.len().min(6), b"\x7fELF\x02\x01".iter().copied());
            if let Some(headers) = read(&slice(&bytes)).unwrap() {
                prop_assert!(headers.segments.iter().all(|segment| segment.start <= segment.limit));
            }
        }
    }
}
