//! One perf map: its entries, and reading of appended entries.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::SystemTime;

use profile::Avma;

use super::code_ranges::CodeRanges;
use super::error::PerfMapError;
use super::line::parse_line;
use super::owner::{self, PerfMapOwner};
use crate::jit_name;
use crate::source_line::{self, SourceLine, shortened};

/// Bytes that are read of one map, and bytes of its names.
const MAX_BYTES: u64 = 256 << 20;
/// Entries that are kept of one map.
const MAX_ENTRIES: usize = 4 << 20;
/// A function in longer code does not exist.
const MAX_SIZE: u64 = 64 << 20;
/// The longest name. A longer one is shortened.
const MAX_NAME: usize = source_line::MAX_TEXT;
/// The rest of a longer line is skipped. Longer names with equal beginnings are one.
const MAX_LINE: usize = 64 << 10;
/// Unused names are thrown away after at least this many bytes were added.
const MIN_GROWTH: usize = 16 << 20;
const CHUNK: usize = 1 << 18;
/// Refused entries that are remembered. If there are more, any new mapping may make an entry valid.
const MAX_REFUSED: usize = 1 << 10;

/// A named piece of JIT code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerfMapEntry {
    /// First address that the entry covers. Later entries may have taken its beginning away.
    pub start: Avma,
    /// Number of addresses.
    pub size: u64,
    /// The name as written, and what it says about file and line.
    pub line: SourceLine,
}

/// The perf map of one program. The file stays open, so the map can be read after the process has ended.
#[derive(Debug)]
pub struct PerfMap {
    file: File,
    /// When the program ended. Later writes come from another program.
    ended: Option<SystemTime>,
    /// Time of the last write that was read.
    newest: SystemTime,
    /// Size and modification time of the file when it was last read.
    seen: Option<(u64, SystemTime)>,
    /// Position after the last complete line, or inside of a line that is too long.
    read: u64,
    /// Whether [`Self::read`] is inside of a line that is too long.
    in_long_line: bool,
    /// Bytes that may still be read.
    budget: u64,
    spent: bool,
    /// By start; entries do not overlap.
    entries: BTreeMap<u64, Entry>,
    /// All names in UTF-8, one after the other. Some are no longer used by any entry.
    names: Vec<u8>,
    /// Length of [`Self::names`] at which unused names are thrown away.
    compact_at: usize,
    malformed: u64,
    beyond_limit: u64,
    /// Where entries count; `None`: anywhere.
    code: Option<Arc<CodeRanges>>,
    /// Entries that are longer than a function, or lie within no one mapping.
    misplaced: u64,
    /// Start and end of refused entries that a new mapping may make valid, up to [`MAX_REFUSED`].
    refused: BTreeSet<(u64, u64)>,
    /// An entry lies within no one mapping and may have hidden others, or refused entries are valid now.
    is_in_doubt: Cell<bool>,
    /// Bytes that may still be read again because entries are in doubt.
    budget_for_doubts: u64,
    left_in_doubt: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    end: u64,
    /// As it was written: later entries may have taken parts of it.
    whole: (u64, u64),
    name: u32,
    length: u32,
}

impl PerfMap {
    /// Most bytes that are read of one map, however often it is written anew.
    pub const MAX_READ: u64 = 1 << 30;
    /// Bytes of [`Self::MAX_READ`] that are read again for mappings that became known later. The rest is for appended entries.
    const MAX_READ_FOR_DOUBTS: u64 = Self::MAX_READ / 2;

    /// Opens the map of a program. `ended`: when the program ended, if it has.
    ///
    /// # Errors
    /// [`PerfMapError`] if there is no map, or no trustworthy one.
    pub fn open(owner: &PerfMapOwner, ended: Option<SystemTime>) -> Result<Self, PerfMapError> {
        Ok(Self::over(owner.open(ended)?, ended))
    }

    /// The map in a file that the caller trusts, of a program that goes on.
    #[must_use]
    pub fn of_file(file: File) -> Self {
        Self::over(file, None)
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
            code: None,
            misplaced: 0,
            refused: BTreeSet::new(),
            is_in_doubt: Cell::new(false),
            budget_for_doubts: Self::MAX_READ_FOR_DOUBTS,
            left_in_doubt: false,
        };
        map.refresh();
        map
    }

    /// Tells the map that its program has ended: later writes are not read. If later writes were read before this call,
    /// all entries are dropped.
    pub fn end(&mut self, at: SystemTime) {
        if self.ended.replace(at).is_none() && self.newest > owner::tick_after(at) {
            self.entries.clear();
            self.names = Vec::new();
        }
    }

    /// From now on only entries within one of these ranges count.
    pub fn within(&mut self, code: Arc<CodeRanges>) {
        let is_new = self.code.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &code) && **known != *code);
        let some_count = || self.refused.iter().any(|(start, end)| code.holds(*start, *end));
        if is_new && (self.refused.len() >= MAX_REFUSED || some_count()) {
            self.is_in_doubt.set(true);
        }
        self.code = Some(code);
    }

    /// The entry that covers an address, among those that were read so far.
    #[must_use]
    pub fn lookup(&self, address: Avma) -> Option<PerfMapEntry> {
        let (start, entry) = self.entries.range(..=address.0).next_back()?;
        if address.0 >= entry.end {
            return None;
        }
        let (first, end) = entry.whole;
        if let Some(code) = &self.code
            && !code.holds(first, end)
        {
            // Reading again refuses it if it lies in a mapping in part. Otherwise it would be found again.
            self.is_in_doubt.set(self.is_in_doubt.get() || code.touches(first, end));
            return None;
        }
        let name = self.names.get(entry.name as usize..)?.get(..entry.length as usize)?;
        let line = jit_name::parse(std::str::from_utf8(name).ok()?);
        Some(PerfMapEntry { start: Avma(*start), size: entry.end - start, line })
    }

    /// Reads appended entries, if the file has changed. Returns whether there were any. Call it once after several
    /// addresses were not found, not for each of them.
    pub fn refresh(&mut self) -> bool {
        let Some(now) = self.size_and_time() else { return false };
        if self.is_in_doubt.take() {
            self.place_again(now.0.min(MAX_BYTES));
        }
        if self.seen.replace(now) == Some(now) {
            return false;
        }
        let size = now.0.min(MAX_BYTES);
        if now.0 < self.read || !self.was_appended_to() {
            // The file was written anew. Known entries stay: the code that they name existed.
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
            // Another program may have begun to write in the meantime.
            let Some((_, written)) = self.size_and_time() else { break };
            self.newest = self.newest.max(written);
            self.append(&chunk[..count], position, &mut line);
            position += count as u64;
        }
        self.read != before
    }

    /// Prepares to read all `size` bytes again. Known entries stay, as above, but for those that lie in a mapping in part. Does nothing
    /// where not all could be read or kept: older entries would replace later ones.
    fn place_again(&mut self, size: u64) {
        let is_full = self.beyond_limit > 0
            || self.entries.len() > MAX_ENTRIES / 2
            || self.names.len() as u64 > MAX_BYTES / 2;
        if is_full || self.budget_for_doubts < size || self.budget < size {
            self.left_in_doubt = true;
            return;
        }
        self.budget_for_doubts -= size;
        if let Some(code) = &self.code {
            self.entries.retain(|_, entry| !straddles(code, entry.whole));
        }
        (self.read, self.in_long_line, self.seen) = (0, false, None);
        (self.malformed, self.beyond_limit, self.misplaced) = (0, 0, 0);
        self.refused.clear();
    }

    /// Reads the whole map again, which was written anew. Such a file may look as if it were appended to. Known entries stay where there
    /// are no new ones.
    pub fn read_anew(&mut self) -> bool {
        self.read = 0;
        self.in_long_line = false;
        self.seen = None;
        self.refresh()
    }

    /// Adds bytes of the file. `line`: the beginning of the line that they continue.
    fn append(&mut self, mut bytes: &[u8], mut position: u64, line: &mut Vec<u8>) {
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
    fn size_and_time(&self) -> Option<(u64, SystemTime)> {
        let meta = self.file.metadata().ok()?;
        let written = owner::written(&meta).ok()?;
        let in_time = self.ended.is_none_or(|ended| written <= owner::tick_after(ended));
        in_time.then_some((meta.len(), written))
    }

    /// Whether the file was appended to: the last line that was read still ends at the same position, or still goes on
    /// there if it is too long.
    fn was_appended_to(&self) -> bool {
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

    /// Bytes that were read so far. Bytes of a file that was written anew count again.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        Self::MAX_READ - self.budget
    }

    /// Whether reading stopped at [`Self::MAX_READ`] bytes.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.spent
    }

    /// Lines that are no entries.
    #[must_use]
    pub fn malformed_lines(&self) -> u64 {
        self.malformed
    }

    /// Entries that are longer than 64 MiB, or that lie partly outside of the mapping that they are in.
    #[must_use]
    pub fn misplaced_entries(&self) -> u64 {
        self.misplaced
    }

    /// Whether names may be missing because the map is too large to be read again for each new mapping. An entry that lies in a mapping
    /// in part hides others, or a refused entry became valid.
    #[must_use]
    pub fn is_left_in_doubt(&self) -> bool {
        self.left_in_doubt
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
        let is_too_long = end - start > MAX_SIZE;
        if is_too_long || self.code.as_ref().is_some_and(|code| straddles(code, (start, end))) {
            self.misplaced += 1;
            // No mapping makes a longer one valid.
            if !is_too_long && self.refused.len() < MAX_REFUSED {
                self.refused.insert((start, end));
            }
            return;
        }
        if self.entries.len() >= MAX_ENTRIES {
            self.beyond_limit += 1;
            return;
        }
        let name = &*shortened(name);
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
        let whole = (start, end);
        self.entries.insert(start, Entry { end, whole, name: position, length: name.len() as u32 });
    }

    /// Throws away names that no entry uses.
    fn compact(&mut self) {
        let mut entries: Vec<&mut Entry> = self.entries.values_mut().collect();
        entries.sort_unstable_by_key(|entry| entry.name);
        let mut kept = 0;
        let mut last = None;
        for entry in entries {
            // The two halves of an entry that was cut share a name.
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
        // Wait for some growth, so that this is rare even if it frees little.
        let limit = usize::try_from(MAX_BYTES).unwrap_or(usize::MAX) - MAX_NAME;
        self.compact_at = (2 * kept).min(limit).max(kept + MIN_GROWTH);
    }

    /// Removes a range from the entries that cover it.
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

/// Whether an entry lies in a mapping in part, or in several.
fn straddles(code: &CodeRanges, (start, end): (u64, u64)) -> bool {
    code.touches(start, end) && !code.holds(start, end)
}

#[cfg(test)]
mod tests;
