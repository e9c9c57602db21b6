//! Functions of a symbol table by name.
//!
//! In: symbols of types FUNC, IFUNC and NOTYPE that are defined. Where several have a name, the default version wins over older ones,
//! functions over labels, symbols of the program over those of one of its source files.
//! Guaranteed: at most [`MAX_ENTRIES`] entries are read, and names up to a bound.

use elf::Section;
use elf::constants::{self, SHT_DYNSYM, SHT_GNU_VERSYM, SectionType};

use crate::image::Image;

/// Entries that are read of a table.
const MAX_ENTRIES: usize = 16 << 20;
/// Bytes of an entry.
const ENTRY: usize = 24;
/// Longer names are cut.
const MAX_NAME: usize = 4096;
/// Longer names are not demangled.
const MAX_MANGLED: usize = 1024;
/// Names that are demangled.
const MAX_DEMANGLED: usize = 1 << 18;

const STT_NOTYPE: u8 = 0;
const STT_OBJECT: u8 = 1;
const STT_FUNC: u8 = 2;
const STT_GNU_IFUNC: u8 = 10;
const STB_LOCAL: u8 = 0;

/// A symbol that may be a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Symbol<'f> {
    /// Its name without its version.
    pub name: &'f [u8],
    pub address: u64,
    pub size: u64,
    pub is_indirect: bool,
    /// The lowest is meant.
    rank: (bool, bool, bool),
}

/// The symbols of a table of the file that may be functions.
pub(crate) fn symbols(image: &Image, kind: SectionType) -> impl Iterator<Item = Symbol<'_>> {
    of_types(image, kind, &[STT_NOTYPE, STT_FUNC, STT_GNU_IFUNC])
}

/// The link-time address of the variable with this name in the table; `None` if there are several.
pub(crate) fn variable(image: &Image, kind: SectionType, name: &str) -> Option<u64> {
    let all = of_types(image, kind, &[STT_NOTYPE, STT_OBJECT]);
    match meant(all.filter(|symbol| symbol.name == name.as_bytes())).as_slice() {
        [one] => Some(one.address),
        _ => None,
    }
}

fn of_types<'f>(
    image: &'f Image,
    kind: SectionType,
    types: &'static [u8],
) -> impl Iterator<Item = Symbol<'f>> + use<'f> {
    let tables = &image.layout.sections;
    let table = tables.iter().find(|section| section.kind == kind);
    let bytes = |section: Option<&Section>| {
        section.and_then(|section| section.bytes(&image.bytes)).unwrap_or_default()
    };
    let strings = bytes(table.and_then(|table| tables.get(table.link as usize)));
    let versions = match kind == SHT_DYNSYM {
        true => bytes(tables.iter().find(|section| section.kind == SHT_GNU_VERSYM)),
        false => &[],
    };
    let entries = bytes(table).chunks_exact(ENTRY).take(MAX_ENTRIES);
    entries.enumerate().filter_map(move |(index, entry)| {
        let is_hidden = versions.get(index * 2 + 1).is_some_and(|high| high & 0x80 != 0);
        symbol(entry, strings, is_hidden, types)
    })
}

fn symbol<'f>(entry: &[u8], strings: &'f [u8], is_hidden: bool, types: &[u8]) -> Option<Symbol<'f>> {
    let name_at = u32::from_le_bytes(*entry.first_chunk()?);
    let info = *entry.get(4)?;
    let section = u16::from_le_bytes(*entry.get(6..)?.first_chunk()?);
    let kind = info & 0xf;
    if !types.contains(&kind) || section == constants::SHN_UNDEF.0 {
        return None;
    }
    let rest = strings.get(name_at as usize..)?;
    let rest = rest.get(..MAX_NAME).unwrap_or(rest);
    let full = rest.get(..rest.iter().position(|byte| *byte == 0)?)?;
    let version = full.iter().position(|byte| *byte == b'@').filter(|at| *at > 0);
    let name = version.and_then(|at| full.get(..at)).unwrap_or(full);
    let is_old = is_hidden || version.is_some_and(|at| full.get(at + 1) != Some(&b'@'));
    // `$x`, `$d.1` mark code and data on ARM.
    if name.is_empty() || name.starts_with(b"$") {
        return None;
    }
    Some(Symbol {
        name,
        address: u64::from_le_bytes(*entry.get(8..)?.first_chunk()?),
        size: u64::from_le_bytes(*entry.get(16..)?.first_chunk()?),
        is_indirect: kind == STT_GNU_IFUNC,
        rank: (is_old, kind == STT_NOTYPE, info >> 4 == STB_LOCAL),
    })
}

/// The name of a symbol by its number, without its version, with the bytes of its table and of the names.
pub(crate) fn name_at(symbols: &[u8], names: &[u8], number: usize) -> Option<String> {
    let entry = symbols.get(number.checked_mul(ENTRY)?..)?;
    let at = u32::from_le_bytes(*entry.first_chunk()?) as usize;
    let rest = names.get(at..)?;
    let name = rest.get(..rest.iter().take(MAX_NAME).position(|byte| *byte == 0)?)?;
    (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
}

/// The symbols with this name in the table that are meant, each address once.
pub(crate) fn named<'f>(image: &'f Image, kind: SectionType, name: &str) -> Vec<Symbol<'f>> {
    meant(symbols(image, kind).filter(|symbol| symbol.name == name.as_bytes()))
}

/// The symbols whose name in the source is this, with parameters or without.
pub(crate) fn named_in_source<'f>(image: &'f Image, kind: SectionType, name: &str) -> Vec<Symbol<'f>> {
    // The last word of the name is in the mangled name too.
    let before_parameters = name.split('(').next().unwrap_or(name);
    let mut words = before_parameters.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let word = words.rfind(|word| !word.is_empty()).unwrap_or_default().as_bytes();
    let is_candidate = |symbol: &Symbol<'_>| {
        let mangled = symbol.name;
        (mangled.starts_with(b"_Z") || mangled.starts_with(b"_R"))
            && mangled.len() <= MAX_MANGLED
            && (word.is_empty() || mangled.windows(word.len()).any(|part| part == word))
    };
    let is_named = |symbol: &Symbol<'_>| {
        let Ok(mangled) = std::str::from_utf8(symbol.name) else { return false };
        let readable = symbols::demangle(mangled);
        readable.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('('))
    };
    meant(symbols(image, kind).filter(is_candidate).take(MAX_DEMANGLED).filter(is_named))
}

/// The symbols that are meant where several have a name, each address once.
pub(crate) fn meant<'f>(all: impl Iterator<Item = Symbol<'f>>) -> Vec<Symbol<'f>> {
    let mut found: Vec<Symbol<'f>> = all.collect();
    let best = found.iter().map(|symbol| symbol.rank).min();
    found.retain(|symbol| Some(symbol.rank) == best);
    found.sort_by_key(|symbol| (symbol.address, std::cmp::Reverse(symbol.size)));
    found.dedup_by_key(|symbol| symbol.address);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: u32, info: u8, section: u16, address: u64, size: u64) -> Vec<u8> {
        let mut bytes = name.to_le_bytes().to_vec();
        bytes.extend([info, 0]);
        bytes.extend(section.to_le_bytes());
        bytes.extend(address.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes
    }

    const STRINGS: &[u8] = b"\0f@@V2\0f@V1\0$x\0g\0unended";

    #[test]
    fn versions_kinds_and_bindings_decide_what_is_meant() {
        let read = |name, info, hidden| {
            symbol(&entry(name, info, 1, 8, 9), STRINGS, hidden, &[STT_NOTYPE, STT_FUNC])
        };
        let (new, old) = (read(1, 0x12, false).unwrap(), read(7, 0x12, false).unwrap());
        assert_eq!((new.name, old.name), (&b"f"[..], &b"f"[..]));
        assert!(new.rank < old.rank, "the default version");
        let rank = |hidden| read(15, 0x12, hidden).map(|symbol| symbol.rank);
        assert!(rank(false) < rank(true), "a hidden version");
        assert_eq!(read(12, 0x10, false), None, "a mark of ARM");
        assert_eq!(read(17, 0x12, false), None, "a name without an end");
        assert_eq!(read(15, 0x11, false), None, "data");
        assert_eq!(read(4000, 0x12, false), None, "a name outside");
        assert_eq!(symbol(&entry(15, 0x12, 0, 8, 9), STRINGS, false, &[STT_FUNC]), None, "defined elsewhere");
        assert_eq!(symbol(&entry(15, 0x12, 1, 8, 9)[..23], STRINGS, false, &[STT_FUNC]), None, "cut");
        let local = read(15, 0x02, false).unwrap();
        let label = read(15, 0x10, false).unwrap();
        let function = read(15, 0x12, false).unwrap();
        assert_eq!(meant([local, label, function].into_iter()), [function]);
        assert_eq!(meant([local, Symbol { address: 3, ..local }, local].into_iter()).len(), 2);
    }
}
