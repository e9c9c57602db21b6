//! GNU build-ids of files and of the running kernel.

use object::LittleEndian;
use object::elf::{ELF_NOTE_GNU, FileHeader64, NT_GNU_BUILD_ID, PT_NOTE};
use object::read::elf::{FileHeader as _, NoteIterator, ProgramHeader as _};
use profile::BuildId;

/// What is read of the notes of a file at most: they are small, unless the file is hostile.
const MAX_NOTES: usize = 64 << 10;
/// Program headers that are looked at.
const MAX_HEADERS: usize = 256;

/// The build-id of a 64-bit ELF file.
pub(crate) fn of_file(file: &[u8]) -> Option<BuildId> {
    let header = FileHeader64::<LittleEndian>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let headers = header.program_headers(endian, file).ok()?;
    let notes = headers.iter().take(MAX_HEADERS).filter(|header| header.p_type(endian) == PT_NOTE);
    notes.into_iter().find_map(|header| {
        let data = header.data(endian, file).ok()?;
        in_notes(data, header.p_align.get(endian))
    })
}

/// The build-id among notes.
pub(crate) fn in_notes(notes: &[u8], align: u64) -> Option<BuildId> {
    let notes = &notes[..notes.len().min(MAX_NOTES)];
    let mut notes = NoteIterator::<FileHeader64<LittleEndian>>::new(LittleEndian, align, notes).ok()?;
    while let Ok(Some(note)) = notes.next() {
        if note.name() == ELF_NOTE_GNU && note.n_type(LittleEndian) == NT_GNU_BUILD_ID {
            return BuildId::new(note.desc()).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTES: [u8; 40] =
        *b"\x04\0\0\0\x04\0\0\0\x01\0\0\0GNU\0abcd\x04\0\0\0\x04\0\0\0\x03\0\0\0GNU\0\x01\x02\x03\x04";

    #[test]
    fn the_build_id_is_found_among_other_notes() {
        assert_eq!(in_notes(&NOTES, 4).unwrap().to_string(), "01020304");
        assert_eq!(in_notes(&NOTES[..20], 4), None);
        let far = [&[0; MAX_NOTES - 4][..], &NOTES].concat();
        assert_eq!(in_notes(&far, 4), None);
    }

    #[test]
    fn other_files_have_none() {
        for bytes in [&b""[..], b"\x7fELF", &[0; 4096]] {
            assert_eq!(of_file(bytes), None);
        }
    }
}
