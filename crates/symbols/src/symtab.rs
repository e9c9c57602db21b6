//! Function symbols of one symbol table, as intervals that do not overlap.
//!
//! In: symbols of types FUNC and IFUNC in executable sections, and symbols of type NOTYPE outside of those. A symbol of size 0
//! extends to the next symbol of its section or to the end of the section. Where symbols overlap, the one that starts last
//! wins until it ends. Of several symbols at one address, the one with the lowest [`Rank`] wins.
//!
//! Guaranteed: a table costs bounded time and memory, whatever length its section declares. A sparse file has any length.

use std::ops::Range;

use elf::Section;
use elf::constants::{self, SectionType, Sym64};
use object::LittleEndian;
use object::pod;

use crate::elf_file::ElfFile;

#[derive(Clone, Copy, Debug)]
struct Interval {
    start: u64,
    size: u32,
    /// Position in the string table.
    name: u32,
}

/// A symbol table, sorted for lookups. The names stay in the file.
#[derive(Debug)]
pub(crate) struct SymbolTable {
    intervals: Vec<Interval>,
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
}

impl SymbolTable {
    /// Reads the section of type `kind` (`SHT_SYMTAB` or `SHT_DYNSYM`). This also works for separate debug files, whose
    /// section table still shows which addresses are code.
    pub fn read(file: &ElfFile, kind: SectionType) -> Option<Self> {
        let section = file.sections().iter().find(|s| s.kind == kind)?;
        let strings = file.sections().get(section.link as usize)?.clone();
        let mut code: Vec<_> =
            file.sections().iter().filter(|s| s.is_code()).map(Section::addresses).collect();
        code.sort_by_key(|r| r.start);
        let source = Source { symbols: entries(file.data(section))?, names: file.data(&strings), code };
        // Large files have millions of symbols, so only their order is kept.
        let mut order = Vec::new();
        for (part, symbols) in (0u32..).zip(source.symbols.chunks(PART)) {
            let numbered = (part * PART as u32..).zip(symbols);
            order.extend(numbered.filter(|(_, symbol)| source.is_code(symbol)).map(|(index, _)| index));
            if order.len() > MAX_FUNCTIONS {
                break;
            }
            // Entries that stand for no code are not read again.
            file.release();
        }
        let is_cut = section.size > MAX_BYTES || order.len() > MAX_FUNCTIONS;
        order.truncate(MAX_FUNCTIONS);
        source.sort(&mut order);
        // Each symbol is compared once: a comparison reads names.
        order.dedup_by(|later, kept| {
            let is_same_start = source.start(*later) == source.start(*kept);
            if is_same_start && source.rank(*later) < source.rank(*kept) {
                *kept = *later;
            }
            is_same_start
        });
        // A label inside of a function is not a function.
        let mut function_end = 0;
        order.retain(|index| {
            let range = source.range(*index);
            if is_function(&source.symbols[*index as usize]) {
                function_end = function_end.max(range.end);
                return true;
            }
            range.start >= function_end
        });
        let intervals = flatten(&source, &order);
        file.release();
        Some(Self { intervals, strings, is_cut })
    }

    /// Whether a file has such a table.
    pub fn is_there(file: &ElfFile, kind: SectionType) -> bool {
        let section = file.sections().iter().find(|section| section.kind == kind);
        section.is_some_and(|section| file.sections().get(section.link as usize).is_some())
    }

    /// The name at a link-time address and the start of its symbol, and the addresses around it of which the same is true. `file` is the file
    /// that the table was read from.
    pub fn find<'a>(&self, file: &'a ElfFile, address: u64) -> (Range<u64>, Option<(&'a [u8], u64)>) {
        let behind = self.intervals.partition_point(|i| i.start <= address);
        let next = self.intervals.get(behind).map_or(u64::MAX, |next| next.start);
        let Some(interval) = behind.checked_sub(1).and_then(|index| self.intervals.get(index)) else {
            return (0..next, None);
        };
        let end = interval.start.saturating_add(interval.size.into());
        if address >= end {
            return (end..next, None);
        }
        let name = name_at(file.data(&self.strings), interval.name);
        (interval.start..end, name.map(|name| (name, interval.start)))
    }

    /// Whether only the first entries were read, because there are too many.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    pub fn heap_bytes(&self) -> usize {
        self.intervals.capacity() * size_of::<Interval>()
    }
}

/// The rest of a longer name is ignored. Mangled names are longer than readable ones.
const MAX_NAME: usize = 64 << 10;
/// Bytes of names that decide between symbols at one address.
const MAX_COMPARED: usize = 1 << 10;
/// Entries that are read of a table. The largest programs have less than five million symbols.
const MAX_ENTRIES: usize = 16 << 20;
/// Bits that the number of an entry needs.
const INDEX_BITS: u32 = MAX_ENTRIES.ilog2();
/// Entries of code that are kept of a table.
const MAX_FUNCTIONS: usize = 8 << 20;
/// Bytes of a table that has [`MAX_ENTRIES`].
const MAX_BYTES: u64 = (MAX_ENTRIES * size_of::<Sym64<LittleEndian>>()) as u64;
/// Entries that are read before the memory of the file is released.
const PART: usize = 1 << 20;

/// The name without the version that linkers may append (`memcpy@@GLIBC_2.14`).
pub(crate) fn name_at(names: &[u8], offset: u32) -> Option<&[u8]> {
    let rest = names.get(offset as usize..)?;
    let name = match rest.iter().take(MAX_NAME).position(|b| *b == 0) {
        Some(end) => &rest[..end],
        None => rest.get(..MAX_NAME)?,
    };
    Some(without_version(name))
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
    fn is_code(&self, symbol: &Sym64<LittleEndian>) -> bool {
        let first_of_name = || self.names.get(symbol.st_name.get(LittleEndian) as usize);
        (is_function(symbol) || symbol.st_type() == constants::STT_NOTYPE)
            && symbol.st_shndx.get(LittleEndian) != constants::SHN_UNDEF
            && self.section(symbol.st_value.get(LittleEndian)).is_some()
            // `$x`, `$d.1` mark code and data on ARM.
            && first_of_name().is_some_and(|first| !matches!(first, 0 | b'$'))
    }

    fn section(&self, address: u64) -> Option<&Range<u64>> {
        let index = self.code.partition_point(|r| r.start <= address).checked_sub(1)?;
        self.code.get(index).filter(|r| r.contains(&address))
    }

    fn start(&self, index: u32) -> u64 {
        self.symbols[index as usize].st_value.get(LittleEndian)
    }

    /// Sorts symbols by start, then by number. Start and number are compared as one number: the table itself would be read in no order,
    /// several times for each symbol.
    fn sort(&self, order: &mut [u32]) {
        let first = self.code.first().map_or(0, |section| section.start);
        let last = self.code.iter().map(|section| section.end).max().unwrap_or(first);
        if last.saturating_sub(first) >> (u64::BITS - INDEX_BITS) != 0 {
            order.sort_unstable_by_key(|index| (self.start(*index), *index));
            return;
        }
        let key = |index: &u32| self.start(*index).wrapping_sub(first) << INDEX_BITS | u64::from(*index);
        let mut keys: Vec<u64> = order.iter().map(key).collect();
        keys.sort_unstable();
        let numbers = keys.iter().map(|key| (key & ((1 << INDEX_BITS) - 1)) as u32);
        order.iter_mut().zip(numbers).for_each(|(index, number)| *index = number);
    }

    /// The addresses of a symbol; empty if it has no size.
    fn range(&self, index: u32) -> Range<u64> {
        let start = self.start(index);
        let end = start.saturating_add(self.symbols[index as usize].st_size.get(LittleEndian));
        start..self.section(start).map_or(start, |section| end.min(section.end))
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

/// `order` is sorted by start, without equal starts.
fn flatten(source: &Source<'_>, order: &[u32]) -> Vec<Interval> {
    let mut out: Vec<Interval> = Vec::with_capacity(order.len());
    let mut push = |start: u64, end: u64, name: u32| {
        if let (true, Ok(size)) = (end > start, u32::try_from(end.saturating_sub(start))) {
            out.push(Interval { start, size, name });
        }
    };
    // Symbols that have begun and not ended, the innermost last.
    let mut open: Vec<(u64, u32)> = Vec::new();
    let mut at = 0;
    for (position, index) in order.iter().enumerate() {
        let range = source.range(*index);
        let start = range.start;
        while let Some((end, name)) = open.pop() {
            push(at, end.min(start), name);
            at = at.max(end.min(start));
            if end > start {
                open.push((end, name));
                break;
            }
        }
        at = start;
        let end = if range.end > start {
            range.end
        } else {
            let section_end = source.section(start).map_or(start, |section| section.end);
            order.get(position + 1).map_or(section_end, |next| source.start(*next).min(section_end))
        };
        open.push((end, source.symbols[*index as usize].st_name.get(LittleEndian)));
    }
    while let Some((end, name)) = open.pop() {
        push(at, end, name);
        at = at.max(end);
    }
    out.shrink_to_fit();
    out
}

#[cfg(test)]
mod tests {
    use object::{U16, U32, U64};

    use super::*;

    #[test]
    fn symbols_are_sorted_by_start_then_number_however_far_apart_code_is() {
        let at = |start| Sym64 {
            st_name: U32::new(LittleEndian, 0),
            st_info: constants::SymbolInfo(0),
            st_other: constants::SymbolOther(0),
            st_shndx: U16::new(LittleEndian, constants::SymbolSection(1)),
            st_value: U64::new(LittleEndian, start),
            st_size: U64::new(LittleEndian, 1),
        };
        let end = 0x1000 + (1 << (u64::BITS - INDEX_BITS));
        for last in [end - 1, end, u64::MAX - 1] {
            let symbols = [last, 0x1002, 0x1000, 0x1002, 0x1001, 0x1000].map(at);
            let code = vec![0x1000..0x2000, last..last + 1];
            let mut order = vec![5, 4, 3, 2, 1, 0];
            Source { symbols: &symbols, names: &[], code }.sort(&mut order);
            assert_eq!(order, [2, 5, 4, 1, 3, 0], "last at {last:#x}");
        }
    }
}
