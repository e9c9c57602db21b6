//! Sections: their kinds, headers and limits.

use flate2::Crc;

/// The first bytes of a file.
pub const MAGIC: [u8; 8] = *b"\x89perfrec";

/// Major version: a reader refuses others.
pub const MAJOR: u16 = 6;

/// Minor version: a reader accepts all.
pub const MINOR: u16 = 0;

/// Largest content of a section.
pub const MAX_CONTENT: usize = 1 << 20;

/// Most items of a table.
pub const MAX_ITEMS: usize = 1 << 24;

/// Content of a file that may be stored in few bytes, however few.
pub const BASE_CONTENT: u64 = 1 << 20;

/// Content beyond [`BASE_CONTENT`] for each stored byte.
pub const MAX_RATIO: u64 = 32;

/// Bytes before the first section.
pub(super) const FILE_HEADER: usize = 16;

/// Bytes before the stored bytes of a section.
pub(super) const SECTION_HEADER: usize = 16;

/// Flag of a section whose content is deflated.
pub(super) const DEFLATED: u16 = 1;

/// What is in a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Modules,
    Mappings,
    Capture,
    ExecInstances,
    CodeObjects,
    Frames,
    Stacks,
    LabelSets,
    Tasks,
    TaskStacks,
    Events,
    Counts,
    Singles,
    SinglesLost,
    SingleWakers,
    Texts,
    LineLists,
    NamedFrames,
    NameOutcome,
    Ledgers,
    Kernel,
    KernelModules,
    Origin,
    FunctionStarts,
    Unsent,
    Fetches,
    FurtherEvents,
    End,
}

impl Kind {
    /// All kinds with their numbers and names.
    pub(super) const ALL: [(Self, u16, &'static str); 28] = [
        (Self::Modules, 1, "modules"),
        (Self::Mappings, 2, "mappings"),
        (Self::Capture, 3, "capture"),
        (Self::ExecInstances, 4, "exec instances"),
        (Self::CodeObjects, 5, "code objects"),
        (Self::Frames, 6, "frames"),
        (Self::Stacks, 7, "stacks"),
        (Self::LabelSets, 8, "label sets"),
        (Self::Tasks, 9, "tasks"),
        (Self::TaskStacks, 10, "task stacks"),
        (Self::Events, 11, "events"),
        (Self::Counts, 12, "counts"),
        (Self::Singles, 18, "single samples"),
        (Self::SinglesLost, 19, "lost single samples"),
        (Self::SingleWakers, 26, "wakers of single samples"),
        (Self::Texts, 13, "texts"),
        (Self::LineLists, 14, "line lists"),
        (Self::NamedFrames, 15, "named frames"),
        (Self::NameOutcome, 16, "outcome of names"),
        (Self::Ledgers, 17, "ledgers"),
        (Self::Kernel, 20, "kernel"),
        (Self::KernelModules, 21, "kernel modules"),
        (Self::Origin, 22, "origin"),
        (Self::FunctionStarts, 23, "function starts"),
        (Self::Unsent, 24, "unsent stacks"),
        (Self::Fetches, 25, "fetched files"),
        (Self::FurtherEvents, 27, "further events"),
        (Self::End, 0xffff, "end"),
    ];

    /// The kind with this number, if it is known.
    pub(super) fn of(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, other, _)| *other == number).map(|(kind, ..)| kind)
    }

    /// Whether only recordings with names have it.
    pub(super) fn is_of_names(self) -> bool {
        use Kind::{Fetches, FunctionStarts, Ledgers, LineLists, NameOutcome, NamedFrames, Texts};
        matches!(self, Texts | LineLists | NamedFrames | FunctionStarts | NameOutcome | Fetches | Ledgers)
    }

    pub(super) fn number(self) -> u16 {
        Self::ALL[self as usize].1
    }

    pub(super) fn name(self) -> &'static str {
        Self::ALL[self as usize].2
    }
}

/// The first bytes of a file with this version.
pub(super) fn file_header(major: u16, minor: u16) -> [u8; FILE_HEADER] {
    let mut bytes = [0; FILE_HEADER];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&major.to_le_bytes());
    bytes[10..12].copy_from_slice(&minor.to_le_bytes());
    let crc = crc(&[&bytes[..12]]);
    bytes[12..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// What is said about a section before its stored bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct SectionHeader {
    /// Number of a [`Kind`].
    pub(super) kind: u16,
    pub(super) flags: u16,
    /// Length of the content.
    pub(super) content: u32,
    /// Length of the stored bytes.
    pub(super) stored: u32,
    /// Checksum of the header and the stored bytes.
    pub(super) crc: u32,
}

impl SectionHeader {
    /// The header of these stored bytes, with its checksum.
    pub(super) fn of(kind: u16, flags: u16, content: u32, stored: &[u8]) -> Self {
        let mut header = Self { kind, flags, content, stored: stored.len() as u32, crc: 0 };
        header.crc = header.crc_with(stored);
        header
    }

    /// The checksum that is right for these stored bytes.
    pub(super) fn crc_with(&self, stored: &[u8]) -> u32 {
        crc(&[&self.encode()[..12], stored])
    }

    pub(super) fn encode(&self) -> [u8; SECTION_HEADER] {
        let mut bytes = [0; SECTION_HEADER];
        bytes[..2].copy_from_slice(&self.kind.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.flags.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.content.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.stored.to_le_bytes());
        bytes[12..].copy_from_slice(&self.crc.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: [u8; SECTION_HEADER]) -> Self {
        let [k0, k1, f0, f1, c0, c1, c2, c3, s0, s1, s2, s3, x0, x1, x2, x3] = bytes;
        Self {
            kind: u16::from_le_bytes([k0, k1]),
            flags: u16::from_le_bytes([f0, f1]),
            content: u32::from_le_bytes([c0, c1, c2, c3]),
            stored: u32::from_le_bytes([s0, s1, s2, s3]),
            crc: u32::from_le_bytes([x0, x1, x2, x3]),
        }
    }
}

/// How many sections there were so far, and what bounds the content of the next one.
#[derive(Debug, Default)]
pub(super) struct Progress {
    sections: u64,
    content: u64,
    stored: u64,
    checksums: Crc,
}

impl Progress {
    /// Whether a file may have a section of these lengths next.
    pub(super) fn allows(&self, content: u32, stored: usize) -> bool {
        let limit = BASE_CONTENT + MAX_RATIO * (self.stored + stored as u64);
        self.content + u64::from(content) <= limit
    }

    /// Counts a section.
    pub(super) fn add(&mut self, header: &SectionHeader) {
        self.sections += 1;
        self.content += u64::from(header.content);
        self.stored += u64::from(header.stored);
        self.checksums.update(&header.crc.to_le_bytes());
    }

    /// The content of the section that ends the file here.
    pub(super) fn end(&self) -> (u64, u32) {
        (self.sections, self.checksums.sum())
    }
}

fn crc(parts: &[&[u8]]) -> u32 {
    let mut crc = Crc::new();
    for part in parts {
        crc.update(part);
    }
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_at_its_position_and_by_its_number() {
        for (at, (kind, number, name)) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
            assert_eq!((Kind::of(number), kind.number(), kind.name()), (Some(kind), number, name));
        }
        assert_eq!(Kind::of(0x7fff), None);
    }
}
