//! The variables at link-time addresses, from the symbol tables of a file.
//!
//! In: symbols of type OBJECT with a size. Of several around an address, the smallest counts, as it is the most exact. An address inside of
//! a variable is told with its distance: `state+0x28`.
//!
//! Such addresses are few and seldom asked for: a table is read through for each batch of them, and nothing is kept.

use elf::constants::{self, SHT_DYNSYM, SHT_SYMTAB, SectionType, Sym64};
use object::LittleEndian;

use crate::demangle::demangle;
use crate::elf_file::ElfFile;
use crate::source_line::{SourceLine, shortened};
use crate::symtab::{entries, name_at};

/// Entries that are read before the memory of the file is released.
const PART: usize = 1 << 20;

/// A variable around an address.
#[derive(Clone, Copy)]
struct Variable {
    start: u64,
    size: u64,
    /// Position in the string table.
    name: u32,
}

/// The variables at addresses in a file, in their order; none where there is none.
pub(crate) fn variables(file: &ElfFile, addresses: &[u64]) -> Vec<Option<SourceLine>> {
    let mut found = vec![None; addresses.len()];
    for kind in [SHT_SYMTAB, SHT_DYNSYM] {
        if found.iter().all(Option::is_some) {
            break;
        }
        let in_table = in_table(file, kind, addresses).unwrap_or_default();
        found
            .iter_mut()
            .zip(in_table)
            .filter(|(found, _)| found.is_none())
            .for_each(|(found, new)| *found = new);
    }
    found
}

fn in_table(file: &ElfFile, kind: SectionType, addresses: &[u64]) -> Option<Vec<Option<SourceLine>>> {
    let section = file.sections().iter().find(|section| section.kind == kind)?;
    let strings = file.sections().get(section.link as usize)?.clone();
    let symbols: &[Sym64<LittleEndian>] = entries(file.data(section))?;
    let mut order: Vec<usize> = (0..addresses.len()).collect();
    order.sort_unstable_by_key(|index| addresses[*index]);
    let mut found: Vec<Option<Variable>> = vec![None; addresses.len()];
    for part in symbols.chunks(PART) {
        for symbol in part.iter().filter(|symbol| is_variable(symbol)) {
            let variable = Variable {
                start: symbol.st_value.get(LittleEndian),
                size: symbol.st_size.get(LittleEndian),
                name: symbol.st_name.get(LittleEndian),
            };
            let first = order.partition_point(|index| addresses[*index] < variable.start);
            for index in order.get(first..).unwrap_or_default() {
                if addresses[*index] - variable.start >= variable.size {
                    break;
                }
                let best = &mut found[*index];
                if best.is_none_or(|best| variable.size < best.size) {
                    *best = Some(variable);
                }
            }
        }
        file.release();
    }
    let line = |address: u64, variable: Variable| {
        let name = String::from_utf8_lossy(name_at(file.data(&strings), variable.name)?);
        let distance = match address - variable.start {
            0 => String::new(),
            distance => format!("+{distance:#x}"),
        };
        let shown = format!("{}{distance}", demangle(&name));
        Some(SourceLine {
            name: (&*shortened(&shown)).into(),
            system_name: (&*shortened(&name)).into(),
            ..SourceLine::default()
        })
    };
    let lines = addresses.iter().zip(found).map(|(address, found)| line(*address, found?));
    let lines = lines.collect();
    file.release();
    Some(lines)
}

fn is_variable(symbol: &Sym64<LittleEndian>) -> bool {
    symbol.st_type() == constants::STT_OBJECT
        && symbol.st_shndx.get(LittleEndian) != constants::SHN_UNDEF
        && symbol.st_size.get(LittleEndian) > 0
}
