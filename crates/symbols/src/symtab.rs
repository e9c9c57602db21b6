//! Function symbols of one symbol table, as intervals that do not overlap.
//!
//! In: symbols of types FUNC and IFUNC in executable sections, and symbols of type NOTYPE outside of those. A symbol of size 0
//! extends at most to the next symbol of its section or to the end of the section: [`Found::has_size`] says that it may end before. Where
//! symbols overlap, the one that starts last wins until it ends. Of several symbols at one address, the one with the lowest [`Rank`] wins.
//!
//! Guaranteed: a table costs bounded time and memory, whatever length its section declares. A sparse file has any length.

use std::ffi::CStr;
use std::ops::Range;

use elf::Section;
use elf::constants::{self, SectionType, Sym64};
use object::LittleEndian;
use object::pod;

use crate::elf_file::ElfFile;

/// A symbol that stands for code. Tables of large files are in no order, so what is needed of a symbol is read once.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    /// The start, if it has no size.
    end: u64,
    /// Position in the string table.
    name: u32,
    /// Number in the table.
    index: u32,
    is_function: bool,
}

#[derive(Clone, Copy, Debug)]
struct Interval {
    start: u64,
    /// Longer symbols are cut.
    size: u32,
    /// Position in the string table.
    name: u32,
}

/// What a table says of an address.
#[derive(Clone, Debug)]
pub(crate) struct Found<N> {
    /// The addresses of which the same is true.
    pub around: Range<u64>,
    /// The name of the symbol and where it starts.
    pub symbol: Option<(N, u64)>,
    /// Whether the table says where the symbol ends.
    pub has_size: bool,
}

impl<N> Found<N> {
    /// No symbol at these addresses.
    pub fn nothing(around: Range<u64>) -> Self {
        Self { around, symbol: None, has_size: false }
    }
}

/// A symbol table, sorted for lookups. The names stay in the file.
#[derive(Debug)]
pub(crate) struct SymbolTable {
    intervals: Vec<Interval>,
    /// Starts of the intervals of symbols without a size, which end where the next one begins. Sorted.
    sizeless: Vec<u64>,
    strings: Section,
    /// Whether there are more than [`MAX_ENTRIES`] or [`MAX_FUNCTIONS`].
    is_cut: bool,
}

/// Decides which of several symbols at one address is shown: preferably one with a size, a function, not local to its file,
/// with few underscores in front, not weak, with a short name. The lowest rank wins.
type Rank<'a> = (bool, bool, bool, usize, bool, usize, &'a [u8]);

/// A symbol table and the parts of the file that its symbols refer to.
struct Source<'f> {
    symbols: &'f [Sym64<LittleEndian>],
    names: &'f [u8],
    /// Executable sections, sorted.
    code: Vec<Range<u64>>,
    /// Whether an address may be in several of them.
    overlaps: bool,
}

impl SymbolTable {
    /// Reads the section of type `kind` (`SHT_SYMTAB` or `SHT_DYNSYM`). This also works for separate debug files, whose
    /// section table still shows which addresses are code.
    pub fn read(file: &ElfFile, kind: SectionType) -> Option<Self> {
        let section = file.sections().iter().find(|s| s.kind == kind)?;
        let section_bytes = section.size;
        let strings = file.sections().get(section.link as usize)?.clone();
        let mut code: Vec<_> =
            file.sections().iter().filter(|s| s.is_code()).map(Section::addresses).collect();
        code.sort_by_key(|r| r.start);
        let overlaps = code.windows(2).any(|pair| pair[1].start < pair[0].end);
        let source = Source {
            symbols: self::entries(file.data(section))?,
            names: file.data(&strings),
            code,
            overlaps,
        };
        let mut entries = Vec::new();
        let mut section = 0..0;
        for (part, symbols) in (0u32..).zip(source.symbols.chunks(PART)) {
            let numbered = (part * PART as u32..).zip(symbols);
            entries.extend(numbered.filter_map(|(index, symbol)| source.entry(index, symbol, &mut section)));
            if entries.len() > MAX_FUNCTIONS {
                break;
            }
            // Entries that stand for no code are not read again.
            file.release();
        }
        let is_cut = section_bytes > MAX_BYTES || entries.len() > MAX_FUNCTIONS;
        entries.truncate(MAX_FUNCTIONS);
        entries.sort_unstable_by_key(|entry| (entry.start, entry.index));
        // Each symbol is compared once: a comparison reads names.
        entries.dedup_by(|later, kept| {
            let is_same_start = later.start == kept.start;
            if is_same_start && source.rank(later.index) < source.rank(kept.index) {
                *kept = *later;
            }
            is_same_start
        });
        // A label inside of a function is not a function.
        let mut function_end = 0;
        entries.retain(|entry| {
            if entry.is_function {
                function_end = function_end.max(entry.end);
                return true;
            }
            entry.start >= function_end
        });
        let (intervals, sizeless) = flatten(&source, &entries);
        file.release();
        Some(Self { intervals, sizeless, strings, is_cut })
    }

    /// Whether a file has such a table.
    pub fn is_there(file: &ElfFile, kind: SectionType) -> bool {
        let section = file.sections().iter().find(|section| section.kind == kind);
        section.is_some_and(|section| file.sections().get(section.link as usize).is_some())
    }

    /// The symbol at a link-time address. `file` is the file that the table was read from.
    pub fn find<'a>(&self, file: &'a ElfFile, address: u64) -> Found<&'a [u8]> {
        let behind = self.intervals.partition_point(|i| i.start <= address);
        let next = self.intervals.get(behind).map_or(u64::MAX, |next| next.start);
        let Some(interval) = behind.checked_sub(1).and_then(|index| self.intervals.get(index)) else {
            return Found::nothing(0..next);
        };
        let end = interval.start.saturating_add(u64::from(interval.size));
        if address >= end {
            return Found::nothing(end..next);
        }
        let name = name_at(file.data(&self.strings), interval.name);
        Found {
            around: interval.start..end,
            symbol: name.map(|name| (name, interval.start)),
            has_size: self.sizeless.binary_search(&interval.start).is_err(),
        }
    }

    /// Whether only the first entries were read, because there are too many.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    pub fn heap_bytes(&self) -> usize {
        self.intervals.capacity() * size_of::<Interval>() + self.sizeless.capacity() * size_of::<u64>()
    }
}

/// A longer name is no name.
const MAX_NAME: usize = 1 << 20;
/// Bytes of names that decide between symbols at one address.
const MAX_COMPARED: usize = 1 << 10;
/// Entries that are read of a table. The largest programs have less than five million symbols.
const MAX_ENTRIES: usize = 16 << 20;
/// Entries of code that are kept of a table.
const MAX_FUNCTIONS: usize = 4 << 20;
/// Bytes of a table that has [`MAX_ENTRIES`].
const MAX_BYTES: u64 = (MAX_ENTRIES * size_of::<Sym64<LittleEndian>>()) as u64;
/// Entries that are read before the memory of the file is released.
const PART: usize = 1 << 20;

/// The name without the version that linkers may append (`memcpy@@GLIBC_2.14`).
pub(crate) fn name_at(names: &[u8], offset: u32) -> Option<&[u8]> {
    let rest = names.get(offset as usize..)?;
    let name = CStr::from_bytes_until_nul(&rest[..rest.len().min(MAX_NAME)]).ok()?;
    Some(without_version(name.to_bytes()))
}

fn without_version(name: &[u8]) -> &[u8] {
    let version = name.iter().position(|b| *b == b'@').filter(|at| *at != 0);
    version.map_or(name, |at| &name[..at])
}

fn is_function(symbol: &Sym64<LittleEndian>) -> bool {
    matches!(symbol.st_type(), constants::STT_FUNC | constants::STT_GNU_IFUNC)
}

/// The entries of a section, at most [`MAX_ENTRIES`].
pub(crate) fn entries<T: pod::Pod>(data: &[u8]) -> Option<&[T]> {
    pod::slice_from_bytes(data, (data.len() / size_of::<T>()).min(MAX_ENTRIES)).ok().map(|(slice, _)| slice)
}

impl<'f> Source<'f> {
    /// A symbol of code. `section`: an executable section, which is replaced if the symbol is in another one; most are in the same.
    fn entry(&self, index: u32, symbol: &Sym64<LittleEndian>, section: &mut Range<u64>) -> Option<Entry> {
        let is_function = is_function(symbol);
        if !is_function && symbol.st_type() != constants::STT_NOTYPE
            || symbol.st_shndx.get(LittleEndian) == constants::SHN_UNDEF
        {
            return None;
        }
        let (start, name) = (symbol.st_value.get(LittleEndian), symbol.st_name.get(LittleEndian));
        if self.overlaps || !section.contains(&start) {
            *section = self.section(start)?.clone();
        }
        // `$x`, `$d.1` mark code and data on ARM.
        let has_name = self.names.get(name as usize).is_some_and(|first| !matches!(first, 0 | b'$'));
        let end = start.saturating_add(symbol.st_size.get(LittleEndian)).min(section.end);
        has_name.then_some(Entry { start, end, name, index, is_function })
    }

    fn section(&self, address: u64) -> Option<&Range<u64>> {
        let index = self.code.partition_point(|r| r.start <= address).checked_sub(1)?;
        self.code.get(index).filter(|r| r.contains(&address))
    }

    fn rank(&self, index: u32) -> Rank<'f> {
        let symbol = &self.symbols[index as usize];
        let rest = self.names.get(symbol.st_name.get(LittleEndian) as usize..).unwrap_or_default();
        let compared = &rest[..rest.len().min(MAX_COMPARED)];
        let end = compared.iter().position(|b| *b == 0).unwrap_or(compared.len());
        let name = without_version(&compared[..end]);
        (
            symbol.st_size.get(LittleEndian) == 0,
            !is_function(symbol),
            symbol.st_bind() == constants::STB_LOCAL,
            name.iter().take_while(|b| **b == b'_').count(),
            symbol.st_bind() == constants::STB_WEAK,
            name.len(),
            name,
        )
    }
}

/// The intervals, and the starts of those without a size. `entries` are sorted by start, without equal starts.
fn flatten(source: &Source<'_>, entries: &[Entry]) -> (Vec<Interval>, Vec<u64>) {
    let (mut out, mut sizeless) = (Vec::with_capacity(entries.len()), Vec::new());
    let mut push = |start: u64, end: u64, (name, has_size): (u32, bool)| {
        if end > start {
            let size = u32::try_from(end - start).unwrap_or(u32::MAX);
            out.push(Interval { start, size, name });
            if !has_size {
                sizeless.push(start);
            }
        }
    };
    // Symbols that have begun and not ended, the innermost last.
    let mut open: Vec<(u64, (u32, bool))> = Vec::new();
    let mut at = 0;
    for (position, entry) in entries.iter().enumerate() {
        let start = entry.start;
        while let Some((end, name)) = open.pop() {
            push(at, end.min(start), name);
            at = at.max(end.min(start));
            if end > start {
                open.push((end, name));
                break;
            }
        }
        at = start;
        let end = if entry.end > start {
            entry.end
        } else {
            let section_end = source.section(start).map_or(start, |section| section.end);
            entries.get(position + 1).map_or(section_end, |next| next.start.min(section_end))
        };
        open.push((end, (entry.name, entry.end > start)));
    }
    while let Some((end, name)) = open.pop() {
        push(at, end, name);
        at = at.max(end);
    }
    out.shrink_to_fit();
    (out, sizeless)
}
