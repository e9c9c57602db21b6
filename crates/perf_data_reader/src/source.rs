//! The file or the stream behind the reader: positions, sections that lie inside of a file.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use crate::error::Error;

/// Bytes that are read at once.
const BUFFER: usize = 1 << 18;

/// A file that knows its length, or a stream, and where it is read.
pub(crate) struct Source<R> {
    reader: BufReader<R>,
    pub(crate) at: u64,
    /// Bytes of the file; of a stream, the largest number.
    pub(crate) end: u64,
    /// Moves on by this many bytes.
    skip: fn(&mut BufReader<R>, u64) -> io::Result<()>,
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
        let skip = |reader: &mut BufReader<R>, size: u64| match i64::try_from(size) {
            Ok(size) => reader.seek_relative(size),
            Err(_) => Err(io::ErrorKind::InvalidInput.into()),
        };
        Ok(Self { reader: BufReader::with_capacity(BUFFER, file), at: 0, end, skip })
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

impl<R: Read> Source<R> {
    /// A stream, which is read once from its first byte to its last one.
    pub(crate) fn stream(stream: R) -> Self {
        let skip = |reader: &mut BufReader<R>, size: u64| {
            let skipped = io::copy(&mut reader.take(size), &mut io::sink())?;
            if skipped < size { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
        };
        Self { reader: BufReader::with_capacity(BUFFER, stream), at: 0, end: u64::MAX, skip }
    }

    /// Fills a buffer with what follows.
    pub(crate) fn read(&mut self, buffer: &mut [u8], what: &'static str) -> Result<(), Error> {
        let at = self.at;
        if self.read_or_end(buffer)? < buffer.len() {
            return Err(Error::CutOff { what, at, end: self.at });
        }
        Ok(())
    }

    /// Fills a buffer with what follows. Gives fewer bytes than it has if the source ends there.
    pub(crate) fn read_or_end(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.reader.read(rest) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::Io { at: self.at + filled as u64, source }),
            }
        }
        self.at += filled as u64;
        Ok(filled)
    }

    /// Leaves out what follows.
    pub(crate) fn skip(&mut self, size: u64, what: &'static str) -> Result<(), Error> {
        let at = self.at;
        let after = at.checked_add(size).filter(|after| *after <= self.end);
        let Some(after) = after else { return Err(Error::CutOff { what, at, end: self.end }) };
        (self.skip)(&mut self.reader, size).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => Error::CutOff { what, at, end: at },
            _ => Error::Io { at, source },
        })?;
        self.at = after;
        Ok(())
    }
}
