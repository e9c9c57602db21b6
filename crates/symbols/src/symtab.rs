//! Function symbols of one symbol table, as intervals that do not overlap.
//!
//! In: symbols of types FUNC and IFUNC in executable sections, and symbols of type NOTYPE outside of those. A symbol of size 0
//! extends to the next symbol of its section or to the end of the section. Where symbols overlap, the one that starts last
//! wins until it ends. Of several symbols at one address, the one with the lowest [`Rank`] wins.

use std::cmp::Ordering;
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
        let symbols = (0u32..).zip(source.symbols).filter(|(_, symbol)| source.is_code(symbol));
        let mut order: Vec<u32> = symbols.map(|(index, _)| index).collect();
        order.sort_unstable_by(|a, b| source.compare(*a, *b));
        order.dedup_by_key(|index| source.start(*index));
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
        Some(Self { intervals, strings })
    }

    /// The name at a link-time address and the start of its symbol. `file` is the file that the table was read from.
    pub fn find<'a>(&self, file: &'a ElfFile, address: u64) -> Option<(&'a [u8], u64)> {
        let index = self.intervals.partition_point(|i| i.start <= address).checked_sub(1)?;
        let interval = self.intervals[index];
        if address - interval.start >= u64::from(interval.size) {
            return None;
        }
        Some((name_at(file.data(&self.strings), interval.name)?, interval.start))
    }

    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    pub fn heap_bytes(&self) -> usize {
        self.intervals.capacity() * size_of::<Interval>()
    }
}

/// No compiler makes longer names.
const MAX_NAME: usize = 64 << 10;

/// The name without the version that linkers may append (`memcpy@@GLIBC_2.14`).
pub(crate) fn name_at(names: &[u8], offset: u32) -> Option<&[u8]> {
    let rest = names.get(offset as usize..)?;
    let rest = &rest[..rest.len().min(MAX_NAME)];
    let name = &rest[..rest.iter().position(|b| *b == 0)?];
    let version = name.iter().position(|b| *b == b'@').filter(|at| *at != 0);
    Some(version.map_or(name, |at| &name[..at]))
}

fn is_function(symbol: &Sym64<LittleEndian>) -> bool {
    matches!(symbol.st_type(), constants::STT_FUNC | constants::STT_GNU_IFUNC)
}

/// The entries of a section.
pub(crate) fn entries<T: pod::Pod>(data: &[u8]) -> Option<&[T]> {
    pod::slice_from_bytes(data, data.len() / size_of::<T>()).ok().map(|(slice, _)| slice)
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

    /// The addresses of a symbol; empty if it has no size.
    fn range(&self, index: u32) -> Range<u64> {
        let start = self.start(index);
        let end = start.saturating_add(self.symbols[index as usize].st_size.get(LittleEndian));
        start..self.section(start).map_or(start, |section| end.min(section.end))
    }

    fn compare(&self, a: u32, b: u32) -> Ordering {
        self.start(a).cmp(&self.start(b)).then_with(|| self.rank(a).cmp(&self.rank(b)))
    }

    fn rank(&self, index: u32) -> Rank<'f> {
        let symbol = &self.symbols[index as usize];
        let name = name_at(self.names, symbol.st_name.get(LittleEndian)).unwrap_or_default();
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
