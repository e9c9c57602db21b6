//! Reads sections and checks their lengths and checksums.

use std::io::{ErrorKind, Read};

use flate2::{Decompress, FlushDecompress, Status};
use serde::de::DeserializeOwned;

use crate::file::check::Problem;
use crate::file::error::ReadError;
use crate::file::section::{
    self, DEFLATED, FILE_HEADER, Kind, MAGIC, MAJOR, MAX_CONTENT, Progress, SECTION_HEADER, SectionHeader,
};

/// Reads sections. Holds one section.
#[derive(Debug)]
pub(super) struct SectionReader<R> {
    from: R,
    /// Bytes read so far.
    read: u64,
    progress: Progress,
    inflate: Decompress,
    stored: Vec<u8>,
    inflated: Vec<u8>,
}

impl<R: Read> SectionReader<R> {
    /// Reads the header of the file.
    pub(super) fn begin(from: R) -> Result<Self, ReadError> {
        let mut reader = Self {
            from,
            read: 0,
            progress: Progress::default(),
            inflate: Decompress::new(false),
            stored: Vec::new(),
            inflated: Vec::new(),
        };
        reader.take(FILE_HEADER)?;
        if !reader.stored.starts_with(&MAGIC[..reader.stored.len().min(MAGIC.len())]) {
            return Err(ReadError::Magic);
        }
        let Ok(header) = <[u8; FILE_HEADER]>::try_from(reader.stored.as_slice()) else {
            return Err(ReadError::Truncated { offset: reader.read });
        };
        let [.., major0, major1, minor0, minor1, _, _, _, _] = header;
        let (major, minor) = (u16::from_le_bytes([major0, major1]), u16::from_le_bytes([minor0, minor1]));
        if major != MAJOR {
            return Err(ReadError::Version { major, minor });
        }
        if header != section::file_header(major, minor) {
            return Err(ReadError::Checksum { offset: 0, part: "the header" });
        }
        Ok(reader)
    }

    /// Reads the next section of a known kind for which `wanted` is true; skips others. `None` at the end of the file.
    pub(super) fn next(&mut self, wanted: impl Fn(Kind) -> bool) -> Result<Option<Content<'_>>, ReadError> {
        loop {
            let offset = self.read;
            let header = self.section()?;
            let kind = Kind::of(header.kind);
            if let Some(kind) = kind.filter(|kind| *kind == Kind::End || wanted(*kind)) {
                if kind == Kind::End {
                    self.end(offset, &header)?;
                    return Ok(None);
                }
                self.progress.add(&header);
                return self.content(offset, kind, &header).map(Some);
            }
            self.progress.add(&header);
        }
    }

    /// Bytes read so far.
    pub(super) fn offset(&self) -> u64 {
        self.read
    }

    /// Reads a section, without looking into it.
    fn section(&mut self) -> Result<SectionHeader, ReadError> {
        let offset = self.read;
        self.take(SECTION_HEADER)?;
        let Ok(header) = <[u8; SECTION_HEADER]>::try_from(self.stored.as_slice()) else {
            return Err(ReadError::Truncated { offset: self.read });
        };
        let header = SectionHeader::decode(header);
        let section = Kind::of(header.kind).map_or("unknown", Kind::name);
        let too_large = |reason: String| Err(ReadError::TooLarge { offset, section, reason });
        if header.content as usize > MAX_CONTENT || header.stored > header.content {
            let (stored, content) = (header.stored, header.content);
            return too_large(format!("{stored} bytes stored for {content}, of {MAX_CONTENT} at most"));
        }
        if !self.progress.allows(header.content, header.stored as usize) {
            return too_large("the file has too much content for its size".to_owned());
        }
        self.take(header.stored as usize)?;
        if self.stored.len() < header.stored as usize {
            return Err(ReadError::Truncated { offset: self.read });
        }
        if header.crc != header.crc_with(&self.stored) {
            return Err(ReadError::Checksum { offset, part: "a section" });
        }
        Ok(header)
    }

    /// The content of the section that was read last.
    fn content(&mut self, offset: u64, kind: Kind, header: &SectionHeader) -> Result<Content<'_>, ReadError> {
        let malformed = |reason: &str| {
            let (section, reason) = (kind.name(), reason.to_owned());
            Err(ReadError::Malformed { offset, section, at: 0, reason })
        };
        let length = header.content as usize;
        match header.flags {
            0 if self.stored.len() == length => Ok(Content { offset, kind, bytes: &self.stored }),
            0 => malformed("its lengths differ though it is not deflated"),
            DEFLATED => {
                self.inflated.resize(length, 0);
                self.inflate.reset(false);
                let status =
                    self.inflate.decompress(&self.stored, &mut self.inflated, FlushDecompress::Finish);
                let (used, made) = (self.inflate.total_in() as usize, self.inflate.total_out() as usize);
                if !matches!(status, Ok(Status::StreamEnd)) || used != self.stored.len() || made != length {
                    return malformed("it cannot be inflated to its length");
                }
                Ok(Content { offset, kind, bytes: &self.inflated })
            }
            _ => malformed("it has unknown flags"),
        }
    }

    /// Checks the last section, and that nothing follows.
    fn end(&mut self, offset: u64, header: &SectionHeader) -> Result<(), ReadError> {
        let expected = self.progress.end();
        let content = self.content(offset, Kind::End, header)?;
        let mut ends = Vec::new();
        content.items(|end: (u64, u32)| {
            ends.push(end);
            Ok(())
        })?;
        if ends != [expected] {
            return Err(content.wrong(0, Problem::Invalid("sections are missing or in another order")));
        }
        let offset = self.read;
        self.take(1)?;
        if self.stored.is_empty() { Ok(()) } else { Err(ReadError::Trailing { offset }) }
    }

    /// Reads this many bytes into `stored`, or as many as there are.
    fn take(&mut self, length: usize) -> Result<(), ReadError> {
        self.stored.clear();
        self.stored.resize(length, 0);
        let mut filled = 0;
        while filled < length {
            match self.from.read(&mut self.stored[filled..]) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(ReadError::Io { offset: self.read + filled as u64, source }),
            }
        }
        self.stored.truncate(filled);
        self.read += filled as u64;
        Ok(())
    }
}

/// The content of a section.
#[derive(Debug)]
pub(super) struct Content<'a> {
    /// Where the section begins.
    pub(super) offset: u64,
    pub(super) kind: Kind,
    bytes: &'a [u8],
}

impl Content<'_> {
    /// Decodes all items and gives them to `each`.
    pub(super) fn items<T: DeserializeOwned>(
        &self,
        mut each: impl FnMut(T) -> Result<(), Problem>,
    ) -> Result<(), ReadError> {
        let mut rest = self.bytes;
        while !rest.is_empty() {
            let at = self.bytes.len() - rest.len();
            let (item, next) =
                postcard::take_from_bytes(rest).map_err(|error| self.malformed(at, error.to_string()))?;
            each(item).map_err(|problem| self.wrong(at, problem))?;
            rest = next;
        }
        Ok(())
    }

    /// The error for a problem of the item at a byte of the content.
    fn wrong(&self, at: usize, problem: Problem) -> ReadError {
        let (offset, section) = (self.offset, self.kind.name());
        match problem {
            Problem::Dangling { kind, id } => ReadError::Dangling { offset, section, at, kind, id },
            Problem::TooMany => ReadError::TooLarge { offset, section, reason: problem.to_string() },
            Problem::Invalid(reason) => self.malformed(at, reason.to_owned()),
        }
    }

    fn malformed(&self, at: usize, reason: String) -> ReadError {
        ReadError::Malformed { offset: self.offset, section: self.kind.name(), at, reason }
    }
}
