//! Notes, which hold the build-id.

use object::elf::NT_GNU_BUILD_ID;
use profile::BuildId;

/// The first GNU build-id in a sequence of notes whose parts are aligned to `align` bytes (4 or 8).
///
/// A note is `name size, descriptor size, type` (4 bytes each), then the name and the descriptor, both padded.
#[must_use]
pub fn gnu_build_id(mut notes: &[u8], align: usize) -> Option<BuildId> {
    let word = |bytes: &[u8], at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    loop {
        let name_size = usize::try_from(word(notes, 0)?).ok()?;
        let descriptor_size = usize::try_from(word(notes, 4)?).ok()?;
        let kind = word(notes, 8)?;
        let name_end = 12usize.checked_add(name_size)?;
        let start = name_end.checked_next_multiple_of(align)?;
        let end = start.checked_add(descriptor_size)?;
        let name = notes.get(12..name_end)?;
        let descriptor = notes.get(start..end)?;
        if kind == NT_GNU_BUILD_ID.0 && name == b"GNU\0" {
            return BuildId::new(descriptor).ok();
        }
        notes = notes.get(end.checked_next_multiple_of(align)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u32, name: &[u8], descriptor: &[u8], align: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [name.len() as u32, descriptor.len() as u32, kind] {
            bytes.extend(word.to_le_bytes());
        }
        for part in [name, descriptor] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(align), 0);
        }
        bytes
    }

    #[test]
    fn the_build_id_may_follow_other_notes() {
        let wanted = note(3, b"GNU\0", &[9; 20], 4);
        let bytes = [note(5, b"GNU\0", &[1; 5], 4), note(3, b"Go\0\0", &[2; 20], 4), wanted].concat();
        assert_eq!(gnu_build_id(&bytes, 4).unwrap().as_bytes(), [9; 20]);
        let bytes = [note(5, b"GNU\0", &[1; 5], 8), note(3, b"GNU\0", &[7; 8], 8)].concat();
        assert_eq!(gnu_build_id(&bytes, 8).unwrap().as_bytes(), [7; 8]);
    }

    #[test]
    fn damaged_notes_have_no_build_id() {
        assert_eq!(gnu_build_id(&note(3, b"GNU\0", &[0; 2], 4), 4), None, "too short for a build-id");
        assert_eq!(gnu_build_id(&[0xff; 64], 4), None);
        let notes = [note(3, b"Xen\0", b"abc", 4), note(3, b"GNU\0", &[1, 2, 3, 4], 4)].concat();
        assert_eq!(gnu_build_id(&notes, 4).unwrap().to_string(), "01020304");
        for cut in 0..notes.len() {
            assert_eq!(gnu_build_id(&notes[..cut], 4), None, "{cut}");
        }
    }
}
