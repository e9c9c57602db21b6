//! What a fetched file is: its build-id, and that of the supplementary file that it needs.

use std::fs::File;

use elf::Layout;
use profile::BuildId;
use sys::filemap::FileMap;

/// What a file says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) build_id: BuildId,
    /// The build-id of the supplementary file that it names (`.gnu_debugaltlink`).
    pub(crate) alternate: Option<BuildId>,
}

impl Content {
    /// `None` if it is no ELF file with a readable section table and a build-id.
    pub(crate) fn of(file: &File) -> Option<Self> {
        let map = FileMap::new(file).ok()?;
        let content = Self::of_bytes(&map);
        map.release();
        content
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let layout = Layout::parse(bytes).filter(|layout| !layout.has_damaged_sections)?;
        let alternate = layout.section(b".gnu_debugaltlink").and_then(|section| section.bytes(bytes));
        let alternate = alternate.and_then(elf::alternate_link).map(|(_, build_id)| build_id);
        Some(Self { build_id: layout.build_id(bytes)?, alternate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_its_build_id_and_other_bytes_have_none() {
        let file = File::open("/bin/sh").unwrap();
        let bytes = std::fs::read("/bin/sh").unwrap();
        let content = Content::of(&file).unwrap();
        assert_eq!(Content::of_bytes(&bytes), Some(content));
        assert_eq!(Content::of_bytes(&bytes[..bytes.len() - 1]), None, "the section table is cut");
        for bytes in [&b""[..], b"<html>not found</html>", b"\x7fELF"] {
            assert_eq!(Content::of_bytes(bytes), None);
        }
    }
}
