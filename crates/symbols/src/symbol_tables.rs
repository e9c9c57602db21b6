//! The symbol tables of a mapped file, each read when an address is asked for that the ones before do not know.

use std::cell::{Cell, OnceCell};
use std::ops::Range;

use elf::constants::{SHT_DYNSYM, SHT_SYMTAB};

use crate::elf_file::ElfFile;
use crate::mini::MiniDebugInfo;
use crate::plt::PltTable;
use crate::symtab::SymbolTable;

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

/// A name and where its symbol begins.
pub(crate) type Named = (String, u64);

impl SymbolTables {
    /// The symbol at an address, and the addresses around it of which the same is true. `has_other`: whether there is a complete symbol
    /// table elsewhere.
    pub fn find(&self, file: &ElfFile, has_other: bool, address: u64) -> (Range<u64>, Option<Named>) {
        let mut around = 0..u64::MAX;
        let mut narrow = |(range, found): (Range<u64>, Option<(&[u8], u64)>)| {
            around = around.start.max(range.start)..around.end.min(range.end);
            found.map(|(name, start)| (String::from_utf8_lossy(name).into_owned(), start))
        };
        let mut found = self.symbols(file).and_then(|table| narrow(table.find(file, address)));
        if found.is_none() {
            found = self.mini(file, has_other).and_then(|mini| narrow(mini.find(address)));
        }
        if found.is_none() {
            found = self.dynamic(file).and_then(|table| narrow(table.find(file, address)));
        }
        if found.is_none() {
            let (range, stub) = self.plt.get_or_init(|| PltTable::read(file)).find(file, address);
            narrow((range, None));
            found = stub;
        }
        (around, found)
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
