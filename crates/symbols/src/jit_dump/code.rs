//! The code that a jitdump tells of: names, lines, and what was where at which time. Reads any bytes; opens nothing.

use std::collections::HashMap;
use std::io;

use profile::Avma;

use super::error::JitDumpError;
use super::history::History;
use super::record::{self, HEADER, Header, Kind, LOAD, Load, MOVE, Move, PREFIX, Prefix};
use super::window::{LARGEST, Window};
use crate::jit_name;
use crate::source_line::{self, SourceLine, shortened};

const MAX_PIECES: usize = 1 << 20;
const MAX_LINES: usize = 4 << 20;
/// Bytes of all names of code and files together.
const MAX_TEXT: usize = 64 << 20;
/// A longer name is shortened.
const MAX_NAME: usize = source_line::MAX_TEXT;
/// Bytes of a name that are read. Longer names with equal beginnings are one.
const MAX_NAME_READ: usize = 64 << 10;
/// `perf inject` puts code behind an ELF header of this size. V8 adds it to the addresses of its lines; others do not.
const V8_LINE_SHIFT: u64 = 0x40;

/// The code that a jitdump tells of.
#[derive(Debug)]
pub struct JitCode {
    header: Option<Header>,
    /// Position behind the last record that was read.
    read: u64,
    budget: u64,
    history: History,
    pieces: Vec<Piece>,
    lines: Vec<LineOf>,
    /// All names, one after the other.
    text: Vec<u8>,
    /// Names of files by their text; they are in [`Self::text`] as well.
    files: HashMap<Box<[u8]>, Text>,
    /// Lines that belong to the next piece, if it has this address.
    pending: Option<(u64, Range)>,
    counts: JitCodeCounts,
}

/// What is not used of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JitCodeCounts {
    /// Records that make no sense.
    pub malformed: u64,
    /// Records beyond the limits.
    pub beyond_limits: u64,
    /// Whether reading stopped at a record whose length makes no sense: the next one cannot be found.
    pub is_damaged: bool,
    /// Whether reading stopped because [`JitCode::MAX_READ`] bytes were read.
    pub is_spent: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Text {
    at: u32,
    length: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Range {
    from: u32,
    to: u32,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    start: u64,
    name: Text,
    lines: Range,
}

/// The line from an address on, relative to the beginning of its code.
#[derive(Clone, Copy, Debug)]
struct LineOf {
    offset: u32,
    line: u32,
    column: u32,
    file: Text,
}

impl Default for JitCode {
    fn default() -> Self {
        Self {
            header: None,
            read: 0,
            budget: Self::MAX_READ,
            history: History::default(),
            pieces: Vec::new(),
            lines: Vec::new(),
            text: Vec::new(),
            files: HashMap::new(),
            pending: None,
            counts: JitCodeCounts::default(),
        }
    }
}

impl JitCode {
    /// Most bytes that are read of one file.
    pub const MAX_READ: u64 = 1 << 30;

    /// Reads records that were appended since the last call. `size` is the present size of the file; `read_at` reads at a position, as
    /// `pread` does. A record that is not complete is read by a later call. True if there were new records.
    ///
    /// # Errors
    /// [`JitDumpError`] if it is no jitdump.
    pub fn read(
        &mut self,
        size: u64,
        mut read_at: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
    ) -> Result<bool, JitDumpError> {
        if self.counts.is_damaged || self.counts.is_spent {
            return Ok(false);
        }
        let before = self.read;
        let mut budget = self.budget;
        let mut window = Window::new(size, &mut budget, &mut read_at);
        let header = match self.header {
            Some(header) => header,
            None => {
                let header = Header::read(window.bytes(0, HEADER as u64).unwrap_or(&[]))?;
                (self.read, self.header) = (header.length, Some(header));
                header
            }
        };
        while let Some(length) = self.record(&mut window, size, header) {
            self.read += length;
        }
        self.counts.is_spent |= window.is_spent();
        self.budget = budget;
        Ok(self.read != before)
    }

    /// Takes the next record. Its length, or `None` if it is not complete or not to be read.
    fn record(&mut self, window: &mut Window<'_>, size: u64, header: Header) -> Option<u64> {
        let at = self.read;
        let prefix = Prefix::read(window.bytes(at, PREFIX as u64)?)?;
        let Some(length) = prefix.length.checked_sub(PREFIX as u64) else {
            // Zeros: a part of the file that is not written yet.
            self.counts.is_damaged |= prefix.length != 0;
            return None;
        };
        if at.checked_add(prefix.length)? > size {
            return None;
        }
        let (body, time_ns) = (at + PREFIX as u64, if header.has_clock_times { prefix.time_ns } else { 0 });
        match prefix.kind {
            Kind::Load => {
                let shown = length.min((LOAD + MAX_NAME_READ) as u64);
                let bytes = window.bytes(body, shown)?;
                let load = Load::read(bytes);
                let name = bytes.get(LOAD..).unwrap_or(&[]);
                let name = record::up_to_nul(name).unwrap_or(name);
                let name = match name.len() {
                    0..=MAX_NAME => name.to_vec(),
                    _ => shortened(&String::from_utf8_lossy(name)).into_owned().into_bytes(),
                };
                match load.filter(|_| length > LOAD as u64) {
                    Some(load) => self.load(load.start, load.size, time_ns, &name),
                    None => self.counts.malformed += 1,
                }
            }
            Kind::Move => match Move::read(window.bytes(body, length.min(MOVE as u64))?) {
                Some(moved) => self.moved(moved, time_ns),
                None => self.counts.malformed += 1,
            },
            Kind::Lines if length > LARGEST => self.counts.beyond_limits += 1,
            Kind::Lines => {
                let bytes = window.bytes(body, length)?.to_vec();
                self.pending = self.enter_lines(&bytes);
                self.counts.malformed += u64::from(self.pending.is_none());
            }
            Kind::Other => {}
        }
        Some(prefix.length)
    }

    fn load(&mut self, start: u64, size: u64, time_ns: u64, name: &[u8]) {
        let lines = self.pending.take().filter(|(code, _)| *code == start).map(|(_, lines)| lines);
        if size == 0 || start.checked_add(size).is_none() {
            self.counts.malformed += 1;
            return;
        }
        let Some(name) = self.enter_text(name) else { return };
        self.add(start, size, time_ns, name, lines.unwrap_or_default());
    }

    fn moved(&mut self, moved: Move, time_ns: u64) {
        let known = self.history.find(moved.from, u64::MAX).and_then(|number| self.pieces.get(number));
        let known = known.filter(|piece| piece.start == moved.from).copied();
        match known.filter(|_| moved.size > 0 && moved.to.checked_add(moved.size).is_some()) {
            Some(piece) => self.add(moved.to, moved.size, time_ns, piece.name, piece.lines),
            None => self.counts.malformed += 1,
        }
    }

    fn add(&mut self, start: u64, size: u64, time_ns: u64, name: Text, lines: Range) {
        if self.pieces.len() >= MAX_PIECES {
            self.counts.beyond_limits += 1;
            return;
        }
        self.history.add(start, start + size, time_ns);
        self.pieces.push(Piece { start, name, lines });
    }

    /// Enters lines of code; the address of the code and where they are. `None`: they make no sense.
    fn enter_lines(&mut self, bytes: &[u8]) -> Option<(u64, Range)> {
        let (code, lines) = record::lines(bytes)?;
        let from = self.lines.len();
        let mut last: (&[u8], Text) = (b"", Text::default());
        for line in lines {
            if self.lines.len() >= MAX_LINES {
                self.counts.beyond_limits += 1;
                break;
            }
            if line.file != last.0 {
                last = (line.file, self.enter_file(line.file).unwrap_or_default());
            }
            let offset = u32::try_from(line.address.saturating_sub(code)).unwrap_or(u32::MAX);
            self.lines.push(LineOf { offset, line: line.line, column: line.column, file: last.1 });
        }
        self.lines[from..].sort_by_key(|line| line.offset);
        Some((code, Range { from: from as u32, to: self.lines.len() as u32 }))
    }

    fn enter_file(&mut self, name: &[u8]) -> Option<Text> {
        let name = &name[..name.len().min(MAX_NAME)];
        if let Some(known) = self.files.get(name) {
            return Some(*known);
        }
        let entered = self.enter_text(name)?;
        self.files.insert(name.into(), entered);
        Some(entered)
    }

    /// `None`, and counted: names take too much memory.
    fn enter_text(&mut self, text: &[u8]) -> Option<Text> {
        if self.text.len() + text.len() > MAX_TEXT {
            self.counts.beyond_limits += 1;
            return None;
        }
        let at = self.text.len() as u32;
        self.text.extend_from_slice(text);
        Some(Text { at, length: text.len() as u32 })
    }

    fn text(&self, text: Text) -> &[u8] {
        self.text.get(text.at as usize..).and_then(|rest| rest.get(..text.length as usize)).unwrap_or(&[])
    }

    /// The name of the code that was at an address at a time (`CLOCK_MONOTONIC`), with its line if that is known.
    #[must_use]
    pub fn lookup(&self, address: Avma, at_ns: u64) -> Option<SourceLine> {
        let piece = self.pieces.get(self.history.find(address.0, at_ns)?)?;
        let name = String::from_utf8_lossy(self.text(piece.name));
        let mut found = jit_name::parse(&name);
        let lines = self.lines.get(piece.lines.from as usize..piece.lines.to as usize).unwrap_or(&[]);
        let shift = if jit_name::is_v8(&name) { V8_LINE_SHIFT } else { 0 };
        let offset = (address.0.saturating_sub(piece.start)).saturating_add(shift);
        let behind = lines.partition_point(|line| u64::from(line.offset) <= offset);
        if let Some(line) = behind.checked_sub(1).and_then(|last| lines.get(last)) {
            let file = String::from_utf8_lossy(self.text(line.file));
            let file = jit_name::plain_file(&file);
            // A line in another file is one of an inlined function, whose name is not known.
            if found.file.is_empty() || *found.file == *file {
                (found.line, found.column) = (line.line, line.column);
                found.file = file.into();
            }
        }
        Some(found)
    }

    /// What is not used.
    #[must_use]
    pub fn counts(&self) -> JitCodeCounts {
        self.counts
    }

    /// How far the file was read.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.read
    }

    /// Bytes that were read so far.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        Self::MAX_READ - self.budget
    }

    /// Heap in use.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        // A name of a file is kept twice, with its place in a table.
        let files = self.files.keys().map(|name| name.len() + 64).sum::<usize>();
        self.history.heap_bytes()
            + self.pieces.capacity() * size_of::<Piece>()
            + self.lines.capacity() * size_of::<LineOf>()
            + self.text.capacity()
            + files
    }
}

#[cfg(test)]
mod tests;
