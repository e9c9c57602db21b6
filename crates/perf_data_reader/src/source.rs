//! The file behind the reader: positions, sections that lie inside of it.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use crate::error::Error;

/// Bytes that are read at once.
const BUFFER: usize = 1 << 18;

/// A file that knows its length and where it is read.
pub(crate) struct Source<R> {
    reader: BufReader<R>,
    pub(crate) at: u64,
    pub(crate) end: u64,
}

/// A range of the file, from its header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) at: u64,
    pub(crate) size: u64,
}

impl<R: Read + Seek> Source<R> {
    pub(crate) fn new(mut file: R) -> Result<Self, Error> {
        let told = |source| Error::Io { at: 0, source };
        let end = file.seek(SeekFrom::End(0)).map_err(told)?;
        file.seek(SeekFrom::Start(0)).map_err(told)?;
        Ok(Self { reader: BufReader::with_capacity(BUFFER, file), at: 0, end })
    }

    pub(crate) fn seek(&mut self, at: u64) -> Result<(), Error> {
        let distance = i64::try_from(i128::from(at) - i128::from(self.at));
        let moved = match distance {
            Ok(distance) => self.reader.seek_relative(distance),
            Err(_) => self.reader.seek(SeekFrom::Start(at)).map(drop),
        };
        moved.map_err(|source| Error::Io { at, source })?;
        self.at = at;
        Ok(())
    }

    /// Fills a buffer with what follows.
    pub(crate) fn read(&mut self, buffer: &mut [u8], what: &'static str) -> Result<(), Error> {
        let at = self.at;
        self.reader.read_exact(buffer).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => Error::CutOff { what, at, end: self.end },
            _ => Error::Io { at, source },
        })?;
        self.at += buffer.len() as u64;
        Ok(())
    }

    /// The bytes of a section, which lies inside of the file and has no more than `limit` bytes.
    pub(crate) fn section(
        &mut self,
        section: Section,
        what: &'static str,
        limit: u64,
    ) -> Result<Vec<u8>, Error> {
        let Section { at, size } = section;
        if at.checked_add(size).is_none_or(|end| end > self.end) {
            return Err(Error::CutOff { what, at, end: self.end });
        }
        if size > limit {
            let reason = format!("it has {size} bytes, which is more than {limit}");
            return Err(Error::Invalid { what, at, reason });
        }
        self.seek(at)?;
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        self.read(&mut bytes, what)?;
        Ok(bytes)
    }
}
