//! What the symbol tables of an object say: those of its separate debug file, and those of the mapped file. Each name is made readable once.

use std::cell::RefCell;
use std::ops::Range;

use dwarf::SharedBytes;

use crate::demangle::demangle;
use crate::elf_file::ElfFile;
use crate::separate::Separate;
use crate::source_line::cut;
use crate::symbol_records::{Symbol, SymbolRecords};
use crate::symbol_tables::SymbolTables;

/// Tables, and what was found in them.
#[derive(Default)]
pub(crate) struct ObjectSymbols {
    tables: SymbolTables,
    of_debug_file: RefCell<SymbolRecords>,
    of_mapped_file: RefCell<SymbolRecords>,
}

impl ObjectSymbols {
    /// The symbol at an address in the separate debug file.
    pub fn debug(&self, separate: &Separate, address: u64) -> Option<Symbol> {
        let Separate::Found(debug) = separate else { return None };
        let records = &mut *self.of_debug_file.borrow_mut();
        known_or(records, address, || {
            let (range, found) = debug.symbol(address);
            (range, found.map(|(name, start)| (String::from_utf8_lossy(name).into_owned(), start)))
        })
    }

    /// The symbol at an address in the mapped file.
    pub fn mapped(&self, main: &ElfFile, separate: &Separate, address: u64) -> Option<Symbol> {
        let records = &mut *self.of_mapped_file.borrow_mut();
        known_or(records, address, || self.tables.find(main, has_table(separate), address))
    }

    /// Whether there is a symbol at an address. Remembers nothing: most such addresses have a better name.
    pub fn has(&self, main: &ElfFile, separate: &Separate, address: u64) -> bool {
        let in_debug_file = matches!(separate, Separate::Found(debug) if debug.symbol(address).1.is_some());
        in_debug_file || self.tables.find(main, has_table(separate), address).1.is_some()
    }

    /// Whether no table has a symbol in the mapped file.
    pub fn are_empty(&self, main: &ElfFile, separate: &Separate) -> bool {
        self.tables.are_empty(main, has_table(separate))
    }

    /// Tables that were read in part only since the last call.
    pub fn take_cut(&self) -> u64 {
        self.tables.take_cut()
    }

    /// Forgets what was found, because the separate debug file is another one.
    pub fn forget(&mut self) {
        (self.of_debug_file, self.of_mapped_file) = Default::default();
    }

    /// Uses what an earlier run found. `false` if it is damaged.
    pub fn restore(&mut self, bytes: &SharedBytes, debug: Range<usize>, mapped: Range<usize>) -> bool {
        let parts = [(&mut self.of_debug_file, debug), (&mut self.of_mapped_file, mapped)];
        parts.into_iter().all(|(records, part)| records.get_mut().restore(SharedBytes::clone(bytes), part))
    }

    /// Whether more is known than was restored.
    pub fn has_news(&self) -> bool {
        self.of_debug_file.borrow().has_news() || self.of_mapped_file.borrow().has_news()
    }

    /// The parts for [`Self::restore`]. `None` if they are too long.
    pub fn save(&self) -> Option<[Vec<u8>; 2]> {
        Some([self.of_debug_file.borrow().save()?, self.of_mapped_file.borrow().save()?])
    }

    pub fn heap_bytes(&self) -> usize {
        self.tables.heap_bytes()
            + self.of_debug_file.borrow().heap_bytes()
            + self.of_mapped_file.borrow().heap_bytes()
    }
}

/// Whether the separate debug file has a complete table.
fn has_table(separate: &Separate) -> bool {
    matches!(separate, Separate::Found(debug) if debug.has_symbol_table())
}

fn known_or(
    records: &mut SymbolRecords,
    address: u64,
    find: impl FnOnce() -> (Range<u64>, Option<(String, u64)>),
) -> Option<Symbol> {
    if let Some(known) = records.find(address) {
        return known;
    }
    let (range, found) = find();
    let symbol = found.map(|(name, start)| {
        let system_name = cut(&name).into();
        Symbol { start, name: demangle(&name).into(), system_name }
    });
    records.add(range, symbol.clone());
    symbol
}
