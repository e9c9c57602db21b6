//! Functions of a symbol table by name.
//!
//! In: symbols of types FUNC, IFUNC and NOTYPE that are defined. Where several have a name, the default version wins over older ones,
//! functions over labels, symbols of the program over those of one of its source files.
//! Guaranteed: at most [`MAX_ENTRIES`] entries are read, and names up to a bound.

use std::collections::HashMap;

use elf::Section;
use elf::constants::{self, SHT_DYNSYM, SHT_GNU_VERDEF, SHT_GNU_VERSYM, SectionType};

use crate::image::Image;

/// Entries that are read of a table.
const MAX_ENTRIES: usize = 16 << 20;
/// Bytes of an entry.
const ENTRY: usize = 24;
/// Longer names are cut.
const MAX_NAME: usize = 4096;
/// Versions of a file that are read.
const MAX_VERSIONS: usize = 1 << 15;
/// In the number of a symbol's version: it is not the default one.
const HIDDEN: u16 = 0x8000;
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
    /// Its version; empty if it has none, or the file does not define it.
    pub version: &'f [u8],
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
    let (numbers, defined) = match kind == SHT_DYNSYM {
        true => {
            let of_symbols = bytes(tables.iter().find(|section| section.kind == SHT_GNU_VERSYM));
            let versions = tables.iter().find(|section| section.kind == SHT_GNU_VERDEF);
            let names = bytes(versions.and_then(|versions| tables.get(versions.link as usize)));
            (of_symbols, defined_versions(bytes(versions), names))
        }
        false => (&[][..], HashMap::new()),
    };
    let entries = bytes(table).chunks_exact(ENTRY).take(MAX_ENTRIES);
    entries.enumerate().filter_map(move |(index, entry)| {
        let number =
            numbers.get(index * 2..).and_then(|rest| rest.first_chunk()).map(|two| u16::from_le_bytes(*two));
        let is_hidden = number.is_some_and(|number| number & HIDDEN != 0);
        let version = number.and_then(|number| defined.get(&(number & !HIDDEN)).copied());
        symbol(entry, strings, (is_hidden, version.unwrap_or_default()), types)
    })
}

/// The names of the versions that a file defines, by their number (`Elf64_Verdef`, `Elf64_Verdaux`).
fn defined_versions<'f>(section: &'f [u8], names: &'f [u8]) -> HashMap<u16, &'f [u8]> {
    let word = |at: usize| Some(u32::from_le_bytes(*section.get(at..)?.first_chunk()?) as usize);
    let half = |at: usize| Some(u16::from_le_bytes(*section.get(at..)?.first_chunk()?));
    let name = |at: usize| {
        let rest = names.get(at..)?;
        let rest = rest.get(..MAX_NAME).unwrap_or(rest);
        rest.get(..rest.iter().position(|byte| *byte == 0)?)
    };
    let mut versions = HashMap::new();
    let mut at = 0usize;
    for _ in 0..MAX_VERSIONS {
        let version = || {
            let own = word(at.checked_add(word(at.checked_add(12)?)?)?)?;
            Some((half(at.checked_add(4)?)?, name(own)?))
        };
        versions.extend(version());
        match at.checked_add(16).and_then(word).filter(|next| *next > 0).and_then(|next| at.checked_add(next))
        {
            Some(next) => at = next,
            None => break,
        }
    }
    versions
}

fn symbol<'f>(
    entry: &[u8],
    strings: &'f [u8],
    (is_hidden, numbered): (bool, &'f [u8]),
    types: &[u8],
) -> Option<Symbol<'f>> {
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
    let written = version.and_then(|at| full.get(at..)).unwrap_or_default();
    let written = written.iter().position(|byte| *byte != b'@').and_then(|at| written.get(at..));
    Some(Symbol {
        name,
        version: written.unwrap_or(numbered),
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

/// The symbols with this name in the table that are meant, each address once. `name@VERSION` means that version.
pub(crate) fn named<'f>(image: &'f Image, kind: SectionType, name: &str) -> Vec<Symbol<'f>> {
    match name.split_once('@').filter(|(name, _)| !name.is_empty()) {
        None => meant(symbols(image, kind).filter(|symbol| symbol.name == name.as_bytes())),
        Some((name, version)) => {
            let version = version.trim_start_matches('@').as_bytes();
            let is_it = |symbol: &Symbol<'_>| symbol.name == name.as_bytes() && symbol.version == version;
            meant(symbols(image, kind).filter(is_it))
        }
    }
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
            symbol(&entry(name, info, 1, 8, 9), STRINGS, (hidden, b""), &[STT_NOTYPE, STT_FUNC])
        };
        let (new, old) = (read(1, 0x12, false).unwrap(), read(7, 0x12, false).unwrap());
        assert_eq!((new.name, old.name), (&b"f"[..], &b"f"[..]));
        assert_eq!((new.version, old.version), (&b"V2"[..], &b"V1"[..]));
        assert!(new.rank < old.rank, "the default version");
        let rank = |hidden| read(15, 0x12, hidden).map(|symbol| symbol.rank);
        assert!(rank(false) < rank(true), "a hidden version");
        assert_eq!(read(12, 0x10, false), None, "a mark of ARM");
        assert_eq!(read(17, 0x12, false), None, "a name without an end");
        assert_eq!(read(15, 0x11, false), None, "data");
        assert_eq!(read(4000, 0x12, false), None, "a name outside");
        assert_eq!(
            symbol(&entry(15, 0x12, 0, 8, 9), STRINGS, (false, b""), &[STT_FUNC]),
            None,
            "defined elsewhere"
        );
        assert_eq!(symbol(&entry(15, 0x12, 1, 8, 9)[..23], STRINGS, (false, b""), &[STT_FUNC]), None, "cut");
        let local = read(15, 0x02, false).unwrap();
        let label = read(15, 0x10, false).unwrap();
        let function = read(15, 0x12, false).unwrap();
        assert_eq!(meant([local, label, function].into_iter()), [function]);
        assert_eq!(meant([local, Symbol { address: 3, ..local }, local].into_iter()).len(), 2);
    }
}
