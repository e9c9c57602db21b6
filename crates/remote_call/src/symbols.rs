//! Addresses of functions and variables in a file by their names: what it exports, then its whole symbol table.

use std::ops::Range;

use elf::Layout;
use elf::constants::{SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB, SectionType};

/// Bytes of a symbol table that are read at most.
const MAX_TABLE: usize = 64 << 20;
/// One entry: name (4 bytes), type, visibility, section (2 bytes), address (8 bytes), size (8 bytes).
const ENTRY: usize = 24;
/// Bytes of a name that are looked at.
const MAX_NAME: usize = 256;
/// No type, variable, function. Others are sections, files, thread-local variables, and functions that choose functions.
const TYPES: [u8; 3] = [0, 1, 2];

/// Symbols that are returned at most where a name may have several.
const MAX_FOUND: usize = 1024;

/// The link-time address of each name.
pub(crate) fn find(file: &[u8], names: &[&str]) -> Vec<Option<u64>> {
    let mut found = vec![None; names.len()];
    let Some(layout) = Layout::parse(file) else { return found };
    for kind in [SHT_DYNSYM, SHT_SYMTAB] {
        if found.iter().all(Option::is_some) {
            break;
        }
        each(&layout, file, kind, |name, range| {
            let is_it = |wanted: &&str| name == wanted.as_bytes();
            if let Some(index) = names.iter().position(is_it) {
                found[index].get_or_insert(range.start);
            }
        });
    }
    found
}

/// The link-time ranges of functions with these names, with those of their parts that a compiler has split off.
pub(crate) fn ranges(file: &[u8], names: &[&str]) -> Vec<(usize, Range<u64>)> {
    let mut found = Vec::new();
    let Some(layout) = Layout::parse(file) else { return found };
    for kind in [SHT_DYNSYM, SHT_SYMTAB] {
        each(&layout, file, kind, |name, range| {
            let is_it = |wanted: &&str| {
                name.strip_prefix(wanted.as_bytes()).is_some_and(|rest| matches!(rest, [] | [b'.', ..]))
            };
            if let Some(index) = names.iter().position(is_it).filter(|_| found.len() < MAX_FOUND) {
                found.push((index, range));
            }
        });
    }
    found
}

/// Calls `take` with the name and the range of each defined symbol of a table.
fn each(layout: &Layout, file: &[u8], kind: SectionType, mut take: impl FnMut(&[u8], Range<u64>)) {
    let Some(section) = layout.sections.iter().find(|section| section.kind == kind) else { return };
    let strings = usize::try_from(section.link).ok().and_then(|index| layout.sections.get(index));
    let Some(strings) = strings.and_then(|strings| strings.bytes(file)) else { return };
    let table = section.bytes(file).unwrap_or_default();
    for entry in table[..table.len().min(MAX_TABLE)].as_chunks::<ENTRY>().0 {
        let [n0, n1, n2, n3, info, _, s0, s1, rest @ ..] = *entry;
        if u16::from_le_bytes([s0, s1]) == SHN_UNDEF.0 || !TYPES.contains(&(info & 0xf)) {
            continue;
        }
        let name = strings.get(u32::from_le_bytes([n0, n1, n2, n3]) as usize..).unwrap_or_default();
        // Names that are looked for are short: a longer one is cut, and is not equal to any.
        let name = &name[..name.len().min(MAX_NAME)];
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        let ([address, size], _) = rest.as_chunks::<8>() else { continue };
        let (address, size) = (u64::from_le_bytes(*address), u64::from_le_bytes(*size));
        take(&name[..end], address..address.saturating_add(size));
    }
}
