//! What the symbol tables of an object say: those of its separate debug file, and those of the mapped file. Each name is made readable once.

use std::cell::RefCell;
use std::ops::Range;

use dwarf::SharedBytes;

use crate::demangle::demangle;
use crate::elf_file::ElfFile;
use crate::function_starts::FunctionStarts;
use crate::separate::Separate;
use crate::source_line::shortened;
use crate::symbol_records::{Symbol, SymbolRecords};
use crate::symbol_tables::SymbolTables;
use crate::symtab::Found;

/// Tables, and what was found in them.
#[derive(Default)]
pub(crate) struct ObjectSymbols {
    tables: SymbolTables,
    functions: FunctionStarts,
    of_debug_file: RefCell<SymbolRecords>,
    of_mapped_file: RefCell<SymbolRecords>,
}

impl ObjectSymbols {
    /// The symbol at an address in the separate debug file.
    pub fn debug(&self, main: &ElfFile, separate: &Separate, address: u64) -> Option<Symbol> {
        let Separate::Found(debug) = separate else { return None };
        let records = &mut *self.of_debug_file.borrow_mut();
        known_or(records, address, || {
            let Found { around, symbol, has_size } = debug.symbol(address);
            let symbol = symbol.map(|(name, start)| (String::from_utf8_lossy(name).into_owned(), start));
            self.functions.proven(main, address, Found { around, symbol, has_size })
        })
    }

    /// The symbol at an address in the mapped file.
    pub fn mapped(&self, main: &ElfFile, separate: &Separate, address: u64) -> Option<Symbol> {
        let records = &mut *self.of_mapped_file.borrow_mut();
        known_or(records, address, || {
            let found = self.tables.find(main, has_table(separate), address);
            self.functions.proven(main, address, found)
        })
    }

    /// Whether there may be a symbol at an address. Remembers nothing: most such addresses have a better name.
    pub fn has(&self, main: &ElfFile, separate: &Separate, address: u64) -> bool {
        let in_debug_file =
            matches!(separate, Separate::Found(debug) if debug.symbol(address).symbol.is_some());
        in_debug_file || self.tables.find(main, has_table(separate), address).symbol.is_some()
    }

    /// Where the functions at addresses begin, in order. Symbols are not asked.
    pub fn function_starts(&self, main: &ElfFile, addresses: &[u64]) -> Vec<Option<u64>> {
        self.functions.starts(main, addresses)
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
            + self.functions.heap_bytes()
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
    find: impl FnOnce() -> Found<String>,
) -> Option<Symbol> {
    if let Some(known) = records.find(address) {
        return known;
    }
    let found = find();
    let symbol = found.symbol.map(|(name, start)| {
        let system_name = (&*shortened(&name)).into();
        Symbol { start, name: demangle(&name).into(), system_name }
    });
    records.add(found.around, symbol.clone());
    symbol
}
