//! Addresses of functions and variables in a file by their names: what it exports, then its whole symbol table.

use elf::Layout;
use elf::constants::{SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB};

/// Bytes of a symbol table that are read at most.
const MAX_TABLE: usize = 64 << 20;
/// One entry: name (4 bytes), type, visibility, section (2 bytes), address (8 bytes), size (8 bytes).
const ENTRY: usize = 24;
/// No type, variable, function. Others are sections, files, thread-local variables, and functions that choose functions.
const TYPES: [u8; 3] = [0, 1, 2];

/// The link-time address of each name.
pub(crate) fn find(file: &[u8], names: &[&str]) -> Vec<Option<u64>> {
    let mut found = vec![None; names.len()];
    let Some(layout) = Layout::parse(file) else { return found };
    for kind in [SHT_DYNSYM, SHT_SYMTAB] {
        if found.iter().all(Option::is_some) {
            break;
        }
        let Some(section) = layout.sections.iter().find(|section| section.kind == kind) else { continue };
        let strings = usize::try_from(section.link).ok().and_then(|index| layout.sections.get(index));
        let Some(strings) = strings.and_then(|strings| strings.bytes(file)) else { continue };
        let table = section.bytes(file).unwrap_or_default();
        for entry in table[..table.len().min(MAX_TABLE)].as_chunks::<ENTRY>().0 {
            let [n0, n1, n2, n3, info, _, s0, s1, rest @ ..] = *entry;
            if u16::from_le_bytes([s0, s1]) == SHN_UNDEF.0 || !TYPES.contains(&(info & 0xf)) {
                continue;
            }
            let Some(name) = strings.get(u32::from_le_bytes([n0, n1, n2, n3]) as usize..) else { continue };
            let is_it = |wanted: &&str| {
                name.strip_prefix(wanted.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
            };
            let Some(index) = names.iter().position(is_it) else { continue };
            let ([address, _], _) = rest.as_chunks::<8>() else { continue };
            found[index].get_or_insert(u64::from_le_bytes(*address));
        }
    }
    found
}
