//! Writes items as sections.

use std::io::{self, Write};

use flate2::{Compress, Compression, FlushCompress, Status};
use serde::Serialize;

use crate::file::check::Problem;
use crate::file::section::{self, DEFLATED, Kind, MAX_CONTENT, MAX_ITEMS, Progress, SectionHeader};

/// Writes items as sections. Holds one section.
#[derive(Debug)]
pub(super) struct SectionWriter<W> {
    to: W,
    written: u64,
    progress: Progress,
    compress: Compress,
    /// The content of the section, as far as it is known, in the first `filled` bytes.
    content: Box<[u8]>,
    filled: usize,
    deflated: Box<[u8]>,
}

impl<W: Write> SectionWriter<W> {
    /// Writes the header of the file.
    pub(super) fn begin(mut to: W) -> io::Result<Self> {
        let header = section::file_header(section::MAJOR, section::MINOR);
        to.write_all(&header)?;
        Ok(Self {
            to,
            written: header.len() as u64,
            progress: Progress::default(),
            compress: Compress::new(Compression::default(), false),
            content: vec![0; MAX_CONTENT].into(),
            filled: 0,
            deflated: vec![0; MAX_CONTENT].into(),
        })
    }

    /// Writes a table as sections of one kind; an empty table has no section. `check` judges each item.
    pub(super) fn table<T: Serialize>(
        &mut self,
        kind: Kind,
        items: impl IntoIterator<Item = T>,
        check: impl Fn(&T) -> Result<(), Problem>,
    ) -> io::Result<()> {
        for (number, item) in items.into_iter().enumerate() {
            let fault = if number >= MAX_ITEMS { Err(Problem::TooMany) } else { check(&item) };
            fault.map_err(|problem| refusal(kind, number, &problem.to_string()))?;
            if !self.append(&item) {
                self.flush(kind)?;
                if !self.append(&item) {
                    return Err(refusal(kind, number, "it cannot be encoded within the limit of a section"));
                }
            }
        }
        self.flush(kind)
    }

    /// Writes the section that ends the file. Returns the number of bytes of the file.
    pub(super) fn end(mut self) -> io::Result<u64> {
        let end = self.progress.end();
        self.table(Kind::End, [end], |_| Ok(()))?;
        self.to.flush()?;
        Ok(self.written)
    }

    /// Appends an item to the content of the section, unless the section is too full.
    fn append<T: Serialize>(&mut self, item: &T) -> bool {
        let used = postcard::to_slice(item, &mut self.content[self.filled..]).map(|used| used.len());
        used.is_ok_and(|used| {
            self.filled += used;
            true
        })
    }

    /// Writes the section, if it has any content.
    fn flush(&mut self, kind: Kind) -> io::Result<()> {
        let content = &self.content[..self.filled];
        let length = content.len() as u32;
        if length == 0 {
            return Ok(());
        }
        // Without room for as many bytes as the content has, a longer result does not come to an end.
        let room = &mut self.deflated[..content.len() - 1];
        self.compress.reset();
        let status =
            self.compress.compress(content, room, FlushCompress::Finish).map_err(io::Error::other)?;
        let deflated = &self.deflated[..self.compress.total_out() as usize];
        let (flags, stored) = if status == Status::StreamEnd && self.progress.allows(length, deflated.len()) {
            (DEFLATED, deflated)
        } else {
            (0, content)
        };
        let header = SectionHeader::of(kind.number(), flags, length, stored);
        self.to.write_all(&header.encode())?;
        self.to.write_all(stored)?;
        self.written += (section::SECTION_HEADER + stored.len()) as u64;
        self.progress.add(&header);
        self.filled = 0;
        Ok(())
    }
}

fn refusal(kind: Kind, number: usize, reason: &str) -> io::Error {
    let message = format!("cannot write item {number} of the {}: {reason}", kind.name());
    io::Error::new(io::ErrorKind::InvalidInput, message)
}
