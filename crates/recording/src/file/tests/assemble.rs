//! Takes files apart and puts them together again with right checksums.

use flate2::{Decompress, FlushDecompress};

use crate::file::section::{
    DEFLATED, FILE_HEADER, Kind, MAJOR, MINOR, Progress, SECTION_HEADER, SectionHeader, file_header,
};

/// A section as it is in a file, without checksum.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) kind: u16,
    pub(super) flags: u16,
    /// Length of the content.
    pub(super) content: u32,
    pub(super) stored: Vec<u8>,
}

impl Part {
    /// A section that is not deflated.
    pub(super) fn plain(kind: Kind, content: &[u8]) -> Self {
        Self { kind: kind.number(), flags: 0, content: content.len() as u32, stored: content.to_vec() }
    }

    /// The content as the fuzz target reads it.
    pub(super) fn fuzz_input(&self) -> Vec<u8> {
        let content = self.inflated().stored;
        let length = u16::try_from(content.len()).unwrap().to_le_bytes();
        [&[self.kind as u8], &length[..], &content].concat()
    }

    /// The same section, not deflated.
    pub(super) fn inflated(&self) -> Self {
        let mut stored = vec![0; self.content as usize];
        if self.flags == DEFLATED {
            let mut inflate = Decompress::new(false);
            inflate.decompress(&self.stored, &mut stored, FlushDecompress::Finish).unwrap();
        } else {
            stored.copy_from_slice(&self.stored);
        }
        Self { kind: self.kind, flags: 0, content: self.content, stored }
    }
}

/// The sections of a file, without the last one.
pub(super) fn parts(file: &[u8]) -> Vec<Part> {
    let mut rest = &file[FILE_HEADER..];
    let mut parts = Vec::new();
    while let Some((header, behind)) = rest.split_first_chunk::<SECTION_HEADER>() {
        let SectionHeader { kind, flags, content, stored, .. } = SectionHeader::decode(*header);
        let (stored, behind) = behind.split_at(stored as usize);
        parts.push(Part { kind, flags, content, stored: stored.to_vec() });
        rest = behind;
    }
    assert_eq!(parts.pop().map(|part| part.kind), Some(Kind::End.number()));
    parts
}

/// A file of these sections.
pub(super) fn file(parts: &[Part]) -> Vec<u8> {
    let mut file = file_header(MAJOR, MINOR).to_vec();
    let mut progress = Progress::default();
    let mut add = |part: &Part, progress: &mut Progress| {
        let header = SectionHeader::of(part.kind, part.flags, part.content, &part.stored);
        file.extend(header.encode());
        file.extend(&part.stored);
        progress.add(&header);
    };
    parts.iter().for_each(|part| add(part, &mut progress));
    let mut end = [0; 32];
    let end = postcard::to_slice(&progress.end(), &mut end).unwrap();
    add(&Part::plain(Kind::End, end), &mut progress);
    file
}
