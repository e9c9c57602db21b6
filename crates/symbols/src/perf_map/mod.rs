//! Perf maps: what runtimes with a JIT write about their code to `/tmp/perf-PID.map`.
//!
//! Guaranteed: only a regular file that belongs to the target's user or to root is read, never through a symbolic
//! link in its last component, and only as long as its own program writes it; at most 256 MiB and 4 million entries; the
//! latest entry that covers an address wins, as code is moved and thrown away. What was appended is read when the caller asks
//! for it and the file has changed; of one that is written anew again and again, 1 GiB altogether. What is malformed or
//! does not fit is counted.

mod owner;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::SystemTime;

use profile::Avma;

use crate::jit_name;
use crate::source_line::SourceLine;

pub use owner::PerfMapOwner;

/// Bytes of one map, and of the names in it, at most.
const MAX_BYTES: u64 = 256 << 20;
/// Entries kept of one map at most.
const MAX_ENTRIES: usize = 4 << 20;
/// A name longer than this is cut.
const MAX_NAME: usize = 4096;
/// What a line has beyond this is passed over; the address, the size and the longest name fit in.
const MAX_LINE: usize = 8192;
/// Names that no entry uses any more are thrown away once so many bytes were added.
const MIN_GROWTH: usize = 16 << 20;
const CHUNK: usize = 1 << 18;

/// Why a perf map is not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PerfMapError {
    /// The process has written none.
    #[error("process {pid} has no perf map at {tried:?}")]
    Missing {
        /// The process.
        pid: u32,
        /// Where it could have been.
        tried: Vec<PathBuf>,
    },
    /// It is there, but it could have been planted by somebody else.
    #[error("perf map {path} of process {pid} is not used: {reason}")]
    Refused {
        /// The process.
        pid: u32,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A system call failed.
    #[error("open perf map {path} of process {pid}: {source}")]
    Io {
        /// The process.
        pid: u32,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// A named piece of JIT code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerfMapEntry {
    /// First address that the entry (still) covers.
    pub start: Avma,
    /// Addresses covered from there.
    pub size: u64,
    /// The name as written, and what it says about file and line.
    pub line: SourceLine,
}

/// The perf map of one program. It stays open, so it outlives its process.
#[derive(Debug)]
pub struct PerfMap {
    file: File,
    /// When the program ended. What is written later is another one's.
    ended: Option<SystemTime>,
    /// The time of the newest writing that was taken in.
    newest: SystemTime,
    /// Size and time of the file when it was last read.
    seen: Option<(u64, SystemTime)>,
    /// Position behind the last complete line, or inside of one that is too long.
    read: u64,
    /// Whether [`Self::read`] is inside of a line that is too long.
    in_long_line: bool,
    /// Bytes that may still be read.
    budget: u64,
    spent: bool,
    /// By start; entries do not overlap.
    entries: BTreeMap<u64, Entry>,
    /// All names in UTF-8, one after the other, also some that no entry uses any more.
    names: Vec<u8>,
    /// Length of [`Self::names`] at which the unused ones are thrown away.
    compact_at: usize,
    malformed: u64,
    beyond_limit: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    end: u64,
    name: u32,
    length: u32,
}

impl PerfMap {
    /// Bytes that are read of one map at most, however often it is written anew.
    pub const MAX_READ: u64 = 1 << 30;

    /// Opens the map of a program; `ended` if it has.
    ///
    /// # Errors
    /// [`PerfMapError`] if there is none, or none that can be trusted.
    pub fn open(owner: &PerfMapOwner, ended: Option<SystemTime>) -> Result<Self, PerfMapError> {
        owner.open(ended)
    }

    fn over(file: File, ended: Option<SystemTime>) -> Self {
        let mut map = Self {
            file,
            ended,
            newest: SystemTime::UNIX_EPOCH,
            seen: None,
            read: 0,
            in_long_line: false,
            budget: Self::MAX_READ,
            spent: false,
            entries: BTreeMap::new(),
            names: Vec::new(),
            compact_at: MIN_GROWTH,
            malformed: 0,
            beyond_limit: 0,
        };
        map.refresh();
        map
    }

    /// The program has ended: what is written from now on is not read. If such a thing was read before anybody knew, nothing
    /// of the map is used any more.
    pub fn end(&mut self, at: SystemTime) {
        if self.ended.replace(at).is_none() && self.newest > owner::tick_after(at) {
            self.entries.clear();
            self.names = Vec::new();
        }
    }

    /// The entry that covers an address, in what was read so far.
    #[must_use]
    pub fn lookup(&self, address: Avma) -> Option<PerfMapEntry> {
        let (start, entry) = self.entries.range(..=address.0).next_back()?;
        if address.0 >= entry.end {
            return None;
        }
        let name = self.names.get(entry.name as usize..)?.get(..entry.length as usize)?;
        let line = jit_name::parse(std::str::from_utf8(name).ok()?);
        Some(PerfMapEntry { start: Avma(*start), size: entry.end - start, line })
    }

    /// Reads what was appended, if the file has changed; worth a call when some addresses were not found, not for each of
    /// them. Whether anything was.
    pub fn refresh(&mut self) -> bool {
        let Some(now) = self.size_in_time() else { return false };
        if self.seen.replace(now) == Some(now) {
            return false;
        }
        let size = now.0.min(MAX_BYTES);
        if now.0 < self.read || !self.goes_on() {
            // Written anew. The entries so far stay: the code that they name was there.
            self.read = 0;
            self.in_long_line = false;
        }
        let before = self.read;
        let mut line = Vec::new();
        let mut chunk = vec![0; CHUNK];
        let mut position = self.read;
        while position < size {
            if self.budget == 0 {
                self.spent = true;
                break;
            }
            let want = (size - position).min(self.budget);
            let want = usize::try_from(want).map_or(CHUNK, |rest| rest.min(CHUNK));
            let count = match self.file.read_at(&mut chunk[..want], position) {
                Ok(0) | Err(_) => break,
                Ok(count) => count,
            };
            self.budget -= count as u64;
            // Another program may have begun to write meanwhile.
            let Some((_, written)) = self.size_in_time() else { break };
            self.newest = self.newest.max(written);
            self.take(&chunk[..count], position, &mut line);
            position += count as u64;
        }
        self.read != before
    }

    /// Takes in bytes of the file. `line`: what came before of the line that they begin in.
    fn take(&mut self, mut bytes: &[u8], mut position: u64, line: &mut Vec<u8>) {
        while !bytes.is_empty() {
            let end = bytes.iter().position(|b| *b == b'\n');
            let part = &bytes[..end.unwrap_or(bytes.len())];
            if !self.in_long_line {
                let fits = part.len().min(MAX_LINE - line.len());
                line.extend_from_slice(&part[..fits]);
                self.in_long_line = fits < part.len();
                if end.is_some() || self.in_long_line {
                    self.add(&String::from_utf8_lossy(line));
                    line.clear();
                }
            }
            let taken = part.len() + usize::from(end.is_some());
            bytes = &bytes[taken..];
            position += taken as u64;
            if end.is_some() || self.in_long_line {
                self.read = position;
            }
            self.in_long_line &= end.is_none();
        }
    }

    /// Size and time of the file, unless it was written after the end of the program.
    fn size_in_time(&self) -> Option<(u64, SystemTime)> {
        let meta = self.file.metadata().ok()?;
        let written = owner::written(&meta).ok()?;
        let in_time = self.ended.is_none_or(|ended| written <= owner::tick_after(ended));
        in_time.then_some((meta.len(), written))
    }

    /// Whether the line that was read last still ends where it did, and one that is too long still does not.
    fn goes_on(&self) -> bool {
        let mut last = [0];
        self.read == 0
            || self
                .file
                .read_at(&mut last, self.read - 1)
                .is_ok_and(|n| n == 1 && (last == *b"\n") != self.in_long_line)
    }

    /// Heap in use.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        // The nodes of the tree are at least half full.
        self.entries.len() * 2 * (size_of::<u64>() + size_of::<Entry>()) + self.names.capacity()
    }

    /// Bytes that were not read because the file is too large.
    #[must_use]
    pub fn bytes_beyond_limit(&self) -> u64 {
        self.file.metadata().map_or(0, |meta| meta.len().saturating_sub(MAX_BYTES))
    }

    /// Bytes that were read so far, those that were written anew included.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        Self::MAX_READ - self.budget
    }

    /// Whether something is not read because [`Self::MAX_READ`] bytes were.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.spent
    }

    /// Lines that are no entries.
    #[must_use]
    pub fn malformed_lines(&self) -> u64 {
        self.malformed
    }

    /// Entries left out because there were too many.
    #[must_use]
    pub fn entries_beyond_limit(&self) -> u64 {
        self.beyond_limit
    }

    fn add(&mut self, line: &str) {
        if line.is_empty() {
            return;
        }
        let Some((start, end, name)) = parse_line(line) else {
            self.malformed += 1;
            return;
        };
        if self.entries.len() >= MAX_ENTRIES {
            self.beyond_limit += 1;
            return;
        }
        let name = &name[..name.floor_char_boundary(MAX_NAME)];
        if self.names.len() >= self.compact_at {
            self.compact();
        }
        let position = match u32::try_from(self.names.len()) {
            Ok(position) if (self.names.len() + name.len()) as u64 <= MAX_BYTES => position,
            _ => {
                self.beyond_limit += 1;
                return;
            }
        };
        self.names.extend_from_slice(name.as_bytes());
        self.cut(start, end);
        self.entries.insert(start, Entry { end, name: position, length: name.len() as u32 });
    }

    /// Throws names away that no entry uses any more.
    fn compact(&mut self) {
        let mut entries: Vec<&mut Entry> = self.entries.values_mut().collect();
        entries.sort_unstable_by_key(|entry| entry.name);
        let mut kept = 0;
        let mut last = None;
        for entry in entries {
            // Both ends of an entry that was cut in two have one name.
            if let Some((was, is)) = last
                && was == entry.name
            {
                entry.name = is;
                continue;
            }
            let (was, length) = (entry.name as usize, entry.length as usize);
            self.names.copy_within(was..was + length, kept);
            last = Some((entry.name, kept as u32));
            entry.name = kept as u32;
            kept += length;
        }
        self.names.truncate(kept);
        // So that it is done seldom also where little is left over.
        let limit = usize::try_from(MAX_BYTES).unwrap_or(usize::MAX) - MAX_NAME;
        self.compact_at = (2 * kept).min(limit).max(kept + MIN_GROWTH);
    }

    /// Takes a range away from the entries that cover it.
    fn cut(&mut self, start: u64, end: u64) {
        if let Some((_, before)) = self.entries.range_mut(..start).next_back()
            && before.end > start
        {
            let rest = *before;
            before.end = start;
            if rest.end > end {
                self.entries.insert(end, rest);
            }
        }
        while let Some((&at, &covered)) = self.entries.range(start..end).next() {
            self.entries.remove(&at);
            if covered.end > end {
                self.entries.insert(end, covered);
            }
        }
    }
}

/// `START SIZE NAME`: addresses from start to end, and the name with its blanks.
fn parse_line(line: &str) -> Option<(u64, u64, &str)> {
    let (start, rest) = line.split_once(' ')?;
    let (size, name) = rest.split_once(' ')?;
    let (start, size) = (hex(start)?, hex(size)?);
    let end = start.checked_add(size)?;
    (size != 0 && !name.is_empty()).then_some((start, end, name))
}

fn hex(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    // `from_str_radix` would take a sign.
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u64::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests;
