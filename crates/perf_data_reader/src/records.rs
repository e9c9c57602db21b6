//! The records of a file or of a stream, one after the other; those that perf compressed are unpacked, and traces that stand between records
//! are left out.

use std::io::Read;

use crate::bytes::u64_at;
use crate::error::Error;
use crate::record::kind;
use crate::source::Source;
use crate::unpack::{Unpacked, Unpacker};

const WHAT: &str = "a record";

/// A record as it stands there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawRecord<'a> {
    /// Where it stands; of a compressed one, where the last piece stands that was read for it.
    pub(crate) at: u64,
    pub(crate) kind: u32,
    pub(crate) misc: u16,
    pub(crate) body: &'a [u8],
}

/// Records from where a source stands.
pub(crate) struct Records<R> {
    source: Source<R>,
    /// Where they end, if that is known before. Otherwise they may end at any place.
    end: Option<u64>,
    /// `[type, misc, size]` and body of the last one.
    bytes: Vec<u8>,
    /// Where the last one begins.
    at: u64,
    unpacker: Option<Box<Unpacker>>,
    is_finished: bool,
    /// Where the source ended inside of a record.
    pub(crate) cut_at: Option<u64>,
    pub(crate) has_aux: bool,
}

impl<R: Read> Records<R> {
    pub(crate) fn new(source: Source<R>, end: Option<u64>) -> Self {
        Self {
            source,
            end,
            bytes: Vec::new(),
            at: 0,
            unpacker: None,
            is_finished: false,
            cut_at: None,
            has_aux: false,
        }
    }

    /// Bytes that were read.
    pub(crate) fn read_up_to(&self) -> u64 {
        self.source.at
    }

    /// The next record.
    pub(crate) fn next(&mut self) -> Result<Option<RawRecord<'_>>, Error> {
        loop {
            if self.unpacked()? {
                return Ok(Some(self.last()));
            }
            if self.is_finished {
                return Ok(None);
            }
            if !self.read()? {
                self.is_finished = true;
                self.finish_unpacking()?;
                continue;
            }
            let RawRecord { kind, body, .. } = self.last();
            match kind {
                kind::AUXTRACE => {
                    let size = u64_at(body, 0).unwrap_or(0);
                    self.leave_out(size)?;
                    self.has_aux = true;
                }
                kind::TRACING_DATA => {
                    let size = body.first_chunk().map_or(0, |size| u32::from_le_bytes(*size));
                    self.leave_out(u64::from(size).next_multiple_of(8))?;
                }
                kind::COMPRESSED | kind::COMPRESSED2 => {
                    let piece = match kind {
                        kind::COMPRESSED => 8..self.bytes.len(),
                        _ => {
                            let size = u64_at(body, 0).and_then(|size| usize::try_from(size).ok());
                            let size = size.filter(|size| body.len() >= 8 && *size <= body.len() - 8);
                            16..16
                                + size.ok_or_else(|| self.invalid("it has less than it says".to_owned()))?
                        }
                    };
                    let piece = self.bytes.get(piece).unwrap_or_default();
                    self.unpacker.get_or_insert_default().add(piece);
                }
                kind::FINISHED_ROUND if self.unpacker.as_mut().is_some_and(|it| it.end_round()) => {}
                _ => return Ok(Some(self.last())),
            }
        }
    }

    fn last(&self) -> RawRecord<'_> {
        let (head, body) = self.bytes.split_at_checked(8).unwrap_or_default();
        let byte = |at: usize| head.get(at).copied().unwrap_or(0);
        RawRecord {
            at: self.at,
            kind: u32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)]),
            misc: u16::from_le_bytes([byte(4), byte(5)]),
            body,
        }
    }

    fn invalid(&self, reason: String) -> Error {
        Error::Invalid { what: WHAT, at: self.at, reason }
    }

    /// Reads a record. `false`: there is none any more.
    fn read(&mut self) -> Result<bool, Error> {
        let at = self.source.at;
        if self.end.is_some_and(|end| at >= end) {
            return Ok(false);
        }
        self.bytes.resize(8, 0);
        let count = self.source.read_or_end(&mut self.bytes)?;
        if count == 0 && self.end.is_none() {
            return Ok(false);
        }
        self.at = at;
        if count < 8 {
            return self.cut();
        }
        let size = usize::from(u16::from_le_bytes([self.bytes[6], self.bytes[7]]));
        if size < 8 {
            return Err(self.invalid(format!("it says that it has {size} bytes")));
        }
        if let Some(end) = self.end.filter(|end| size as u64 > end - at) {
            let left = end - at;
            return Err(self.invalid(format!("it has {size} bytes, and the data end {left} bytes after it")));
        }
        self.bytes.resize(size, 0);
        let body = self.bytes.get_mut(8..).unwrap_or_default();
        if self.source.read_or_end(body)? < size - 8 { self.cut() } else { Ok(true) }
    }

    /// The source ends inside of a record: an error, unless it may end anywhere.
    fn cut(&mut self) -> Result<bool, Error> {
        if self.end.is_some() {
            return Err(Error::CutOff { what: WHAT, at: self.at, end: self.source.at });
        }
        self.cut_at = Some(self.at);
        Ok(false)
    }

    fn leave_out(&mut self, size: u64) -> Result<(), Error> {
        let after = self.source.at.checked_add(size);
        if after.is_none_or(|after| self.end.is_some_and(|end| after > end)) {
            return Err(self.invalid(format!("{size} bytes of trace follow it")));
        }
        self.source.skip(size, "a trace")
    }

    /// Makes the next unpacked record the last one. `false`: there is none without more of the source.
    fn unpacked(&mut self) -> Result<bool, Error> {
        let Some(unpacker) = &mut self.unpacker else { return Ok(false) };
        let next = unpacker.next();
        let (what, at) = ("compressed records", self.at);
        match next.map_err(|reason| Error::Invalid { what, at, reason })? {
            Some(Unpacked::Record(size)) => {
                self.bytes.clear();
                self.bytes.extend_from_slice(unpacker.take(size));
            }
            Some(Unpacked::RoundEnd) => {
                self.bytes.clear();
                self.bytes.extend(kind::FINISHED_ROUND.to_le_bytes());
                self.bytes.extend([0, 0, 8, 0]);
            }
            None => return Ok(false),
        }
        Ok(true)
    }

    fn finish_unpacking(&mut self) -> Result<(), Error> {
        let Some(unpacker) = &mut self.unpacker else { return Ok(()) };
        let (what, at) = ("compressed records", self.at);
        let left = unpacker.finish().map_err(|reason| Error::Invalid { what, at, reason })?;
        if left > 0 && self.end.is_some() {
            let reason = format!("{left} bytes at their end are no whole block");
            return Err(Error::Invalid { what, at, reason });
        }
        Ok(())
    }
}
