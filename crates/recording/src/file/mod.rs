//! The file format of recordings.
//!
//! A file is a header and a sequence of sections; all numbers are little-endian.
//!
//! | part | bytes |
//! |---|---|
//! | header | magic (8), major version (2), minor version (2), CRC-32 of these (4) |
//! | section | kind (2), flags (2), length of the content (4), stored length (4), checksum (4), stored bytes |
//! | last section | its content is the number of sections before it and the CRC-32 of their checksums |
//!
//! The checksum of a section is the CRC-32 of the header fields before it and of the stored bytes. The stored bytes are the content,
//! deflated (flag 1) where that makes it smaller. The content has at most [`MAX_CONTENT`] bytes and is a sequence of items in the
//! encoding of `postcard`. A long table has several sections of its kind. An item refers only to items before it.
//!
//! A reader refuses files of another major version and skips sections of unknown kinds: a minor version may add kinds. The encoding
//! of the model's types is a part of the format: a change of one of them needs a new major version.
//!
//! A reader's memory is bounded for any input. The content of a file of `n` bytes has at most [`BASE_CONTENT`] + [`MAX_RATIO`] · `n`
//! bytes. Each byte of content becomes at most 100 bytes in memory while a table grows. Each table has at most [`MAX_ITEMS`] items.
//! A writer obeys the same limits: what it writes can be read.
//!
//! ```
//! let recording = recording::Recording::default();
//! let mut bytes = Vec::new();
//! recording::file::write(&recording, &mut bytes)?;
//! assert_eq!(recording::file::read(&bytes[..])?, recording);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod check;
mod error;
mod name_tables;
mod read;
mod section;
mod section_reader;
mod section_writer;
mod write;

#[cfg(test)]
mod tests;

use std::io::{self, Read, Write};

use crate::model::{Recording, SymbolizedRecording};

use self::section_reader::SectionReader;
use self::section_writer::SectionWriter;

pub use self::error::ReadError;
pub use self::section::{BASE_CONTENT, MAGIC, MAJOR, MAX_CONTENT, MAX_ITEMS, MAX_RATIO, MINOR};

/// Writes a recording without names. Returns the number of bytes.
///
/// Equal recordings give equal bytes.
///
/// # Errors
/// The writer failed, or the recording exceeds a limit of the format or has an id without an item (`InvalidInput`).
pub fn write(recording: &Recording, to: impl Write) -> io::Result<u64> {
    let mut sections = SectionWriter::begin(to)?;
    write::recording(&mut sections, recording)?;
    sections.end()
}

/// Writes a recording with its names and ledgers. Returns the number of bytes.
///
/// # Errors
/// As [`write()`].
pub fn write_symbolized(symbolized: &SymbolizedRecording, to: impl Write) -> io::Result<u64> {
    let mut sections = SectionWriter::begin(to)?;
    write::recording(&mut sections, &symbolized.recording)?;
    write::names(&mut sections, symbolized)?;
    sections.end()
}

/// Reads a recording. Names and ledgers in the file are skipped.
///
/// # Errors
/// [`ReadError`] names the offset at which the file is wrong.
pub fn read(from: impl Read) -> Result<Recording, ReadError> {
    Ok(read::file(SectionReader::begin(from)?, false)?.recording)
}

/// Reads a recording with its names and ledgers, which are empty if the file has none.
///
/// # Errors
/// As [`read`].
pub fn read_symbolized(from: impl Read) -> Result<SymbolizedRecording, ReadError> {
    read::file(SectionReader::begin(from)?, true)
}
