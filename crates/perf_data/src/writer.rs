//! The file, as it grows.

use std::io::{self, Seek, SeekFrom, Write};

use crate::attr::Event;
use crate::bytes::Bytes;
use crate::error::Error;
use crate::features::Features;
use crate::header::{DATA_SIZE_AT, ENTRY_BYTES, FEATURES_AT, HEADER_BYTES, header};
use crate::record::{Record, Stamp, finished_round};

/// Bytes that are held back at most.
const BUFFER: usize = 256 << 10;

/// Writes a file. What it was given is in the file after [`end_round`](Self::end_round), and the header says so.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    events: Vec<Event>,
    buffer: Bytes,
    data_at: u64,
    /// Bytes of data in the file and in the buffer.
    data_bytes: u64,
    in_round: bool,
}

impl<W: Write + Seek> Writer<W> {
    /// Begins a file at the start of `to`, which is empty.
    ///
    /// # Errors
    /// It takes no bytes.
    pub fn begin(mut to: W, events: Vec<Event>) -> Result<Self, Error> {
        let count = events.len() as u64;
        let data_at = HEADER_BYTES + count * (8 + ENTRY_BYTES);
        let mut bytes = Bytes::default();
        bytes.raw(&header(count, data_at));
        events.iter().for_each(|event| _ = bytes.u64(event.id));
        for (at, event) in (HEADER_BYTES..).step_by(8).zip(&events) {
            bytes.raw(&event.attr.encode()).u64(at).u64(8);
        }
        to.write_all(&bytes.into_vec()).map_err(failed("the header"))?;
        Ok(Self { to, events, buffer: Bytes::default(), data_at, data_bytes: 0, in_round: false })
    }

    /// Writes a record.
    ///
    /// # Errors
    /// The file takes no bytes.
    pub fn push(&mut self, stamp: &Stamp, record: &Record<'_>) -> Result<(), Error> {
        self.in_round = true;
        self.append(|buffer| record.encode(stamp, buffer))
    }

    /// Ends a round: all that was written so far is in the file, and readers find it. Nothing happens if nothing was written since the last one.
    ///
    /// # Errors
    /// The file takes no bytes.
    pub fn end_round(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.in_round) {
            return Ok(());
        }
        self.append(finished_round)?;
        self.flush()?;
        let size = self.data_bytes.to_ne_bytes();
        self.rewrite(DATA_SIZE_AT, &size).map_err(failed("the size of the records"))
    }

    /// Ends the last round, and writes what is known of the machine and the capture.
    ///
    /// # Errors
    /// The file takes no bytes.
    pub fn finish(mut self, features: &Features) -> Result<W, Error> {
        self.end_round()?;
        let payloads = features.encode(&self.events);
        let mut at = self.data_at + self.data_bytes + payloads.len() as u64 * 16;
        let mut index = Bytes::default();
        let mut bits = [0u64; 4];
        for (bit, payload) in &payloads {
            index.u64(at).u64(payload.len() as u64);
            at += payload.len() as u64;
            if let Some(word) = bits.get_mut(*bit as usize / 64) {
                *word |= 1 << (bit % 64);
            }
        }
        payloads.iter().for_each(|(_, payload)| _ = index.raw(payload));
        let what = failed("the features");
        self.to.write_all(&index.into_vec()).map_err(&what)?;
        self.rewrite(FEATURES_AT, &bits.map(u64::to_ne_bytes).concat()).map_err(what)?;
        Ok(self.to)
    }

    fn append(&mut self, encode: impl FnOnce(&mut Bytes)) -> Result<(), Error> {
        let before = self.buffer.len();
        encode(&mut self.buffer);
        self.data_bytes += (self.buffer.len() - before) as u64;
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.to.write_all(self.buffer.as_slice()).map_err(failed("records"))?;
        self.buffer.clear();
        Ok(())
    }

    /// Writes at a position, and goes back to the end.
    fn rewrite(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.to.seek(SeekFrom::Start(at))?;
        self.to.write_all(bytes)?;
        self.to.seek(SeekFrom::End(0))?;
        self.to.flush()
    }
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Io { what, source }
}
