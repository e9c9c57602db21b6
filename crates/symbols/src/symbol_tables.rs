//! The symbol tables of a mapped file, each read when an address is asked for that the ones before do not know.

use std::cell::{Cell, OnceCell};
use std::ops::Range;

use elf::constants::{SHT_DYNSYM, SHT_SYMTAB};

use crate::elf_file::ElfFile;
use crate::mini::MiniDebugInfo;
use crate::plt::PltTable;
use crate::symtab::{Found, SymbolTable};

/// The tables of one file.
#[derive(Default)]
pub(crate) struct SymbolTables {
    symbols: OnceCell<Option<SymbolTable>>,
    /// The compressed symbol table of some stripped files. Looked at if there is no other.
    mini: OnceCell<Option<MiniDebugInfo>>,
    dynamic: OnceCell<Option<SymbolTable>>,
    plt: OnceCell<PltTable>,
    /// Tables that were read in part only, since the last time that somebody asked.
    cut: Cell<u64>,
}

impl SymbolTables {
    /// The symbol at an address. `has_other`: whether there is a complete symbol table elsewhere. A symbol without a size comes after those
    /// with one, and ends where any other symbol begins or ends.
    pub fn find(&self, file: &ElfFile, has_other: bool, address: u64) -> Found<String> {
        let mut all = Found::nothing(0..u64::MAX);
        let mut enter = |found: Found<&[u8]>| {
            narrow(&mut all.around, &found.around);
            if let Some((name, start)) = found.symbol
                && (found.has_size || all.symbol.as_ref().is_none_or(|(_, kept)| *kept < start))
            {
                all.symbol = Some((String::from_utf8_lossy(name).into_owned(), start));
                all.has_size = found.has_size;
            }
            found.has_size
        };
        let is_found = self.symbols(file).is_some_and(|table| enter(table.find(file, address)))
            || self.mini(file, has_other).is_some_and(|mini| enter(mini.find(address)))
            || self.dynamic(file).is_some_and(|table| enter(table.find(file, address)));
        if !is_found {
            let (range, stub) = self.plt.get_or_init(|| PltTable::read(file)).find(file, address);
            narrow(&mut all.around, &range);
            if stub.is_some() {
                (all.symbol, all.has_size) = (stub, true);
            }
        }
        if !all.has_size && all.symbol.as_ref().is_some_and(|(_, start)| *start < all.around.start) {
            all.symbol = None;
        }
        all
    }

    /// Whether no table has a symbol.
    pub fn are_empty(&self, file: &ElfFile, has_other: bool) -> bool {
        self.symbols(file).is_none_or(SymbolTable::is_empty)
            && self.mini(file, has_other).is_none_or(MiniDebugInfo::is_empty)
            && self.dynamic(file).is_none_or(SymbolTable::is_empty)
    }

    /// Tables that were read in part only, since the last call.
    pub fn take_cut(&self) -> u64 {
        self.cut.take()
    }

    fn symbols(&self, file: &ElfFile) -> Option<&SymbolTable> {
        self.symbols.get_or_init(|| self.read(file, SHT_SYMTAB)).as_ref()
    }

    fn dynamic(&self, file: &ElfFile) -> Option<&SymbolTable> {
        self.dynamic.get_or_init(|| self.read(file, SHT_DYNSYM)).as_ref()
    }

    fn read(&self, file: &ElfFile, kind: elf::constants::SectionType) -> Option<SymbolTable> {
        let table = SymbolTable::read(file, kind)?;
        self.cut.set(self.cut.get() + u64::from(table.is_cut()));
        Some(table)
    }

    /// The compressed symbol table, if it is the only complete one.
    fn mini(&self, file: &ElfFile, has_other: bool) -> Option<&MiniDebugInfo> {
        if has_other || SymbolTable::is_there(file, SHT_SYMTAB) {
            return None;
        }
        self.mini.get_or_init(|| MiniDebugInfo::read(file)).as_ref()
    }

    pub fn heap_bytes(&self) -> usize {
        let tables = [&self.symbols, &self.dynamic].into_iter().filter_map(OnceCell::get).flatten();
        tables.map(SymbolTable::heap_bytes).sum::<usize>()
            + self.plt.get().map_or(0, PltTable::heap_bytes)
            + self.mini.get().and_then(Option::as_ref).map_or(0, MiniDebugInfo::heap_bytes)
    }
}

fn narrow(around: &mut Range<u64>, by: &Range<u64>) {
    *around = around.start.max(by.start)..around.end.min(by.end);
}
