//! The content of a separate debug file: its debug information and its symbol table.

use std::fs::File;

use elf::constants::SHT_SYMTAB;

use crate::debug_file::Search;
use crate::dwarf::Dwarf;
use crate::elf_file::ElfFile;
use crate::stats::Stats;
use crate::symtab::SymbolTable;

/// The separate debug file of a mapped file, as far as it is known.
pub(crate) enum Separate {
    /// Nobody has looked for it.
    NotSearched,
    /// There is none, or none is needed.
    Missing,
    /// It was found.
    Found(Box<DebugFile>),
}

/// A separate debug file.
pub(crate) struct DebugFile {
    elf: ElfFile,
    file: File,
    symbols: Option<SymbolTable>,
    /// `None` if it is released or cannot be read.
    pub dwarf: Option<Dwarf>,
    released: bool,
}

impl DebugFile {
    /// Reads a debug file that was found.
    pub fn read((file, elf): (File, ElfFile), search: &Search<'_>, stats: &mut Stats) -> Self {
        let symbols = SymbolTable::read(&elf, SHT_SYMTAB);
        stats.cut_symbol_tables += u64::from(symbols.as_ref().is_some_and(SymbolTable::is_cut));
        let mut this = Self { elf, file, symbols, dwarf: None, released: false };
        this.attach(search, stats);
        this
    }

    fn attach(&mut self, search: &Search<'_>, stats: &mut Stats) {
        if self.elf.has_dwarf() {
            self.dwarf = Dwarf::open(&self.elf, self.file.try_clone().ok(), search, stats);
        }
    }

    /// Reads released debug information again.
    pub fn restore(&mut self, search: &Search<'_>, stats: &mut Stats) {
        if std::mem::take(&mut self.released) {
            self.attach(search, stats);
        }
    }

    /// Frees the debug information and the pages of the file. The symbol table stays.
    pub fn release(&mut self) {
        self.released |= self.dwarf.take().is_some();
        self.elf.release();
    }

    pub fn has_symbol_table(&self) -> bool {
        self.symbols.is_some()
    }

    /// Whether nothing in the file can give a name.
    pub fn is_nameless(&self) -> bool {
        self.dwarf.is_none() && !self.released && self.symbols.as_ref().is_none_or(SymbolTable::is_empty)
    }

    /// The name at a link-time address in the symbol table, and the start of its symbol.
    pub fn symbol(&self, address: u64) -> Option<(&[u8], u64)> {
        self.symbols.as_ref()?.find(&self.elf, address)
    }

    /// Bytes that dropping this would free.
    pub fn heap_bytes(&self) -> usize {
        self.symbols.as_ref().map_or(0, SymbolTable::heap_bytes)
            + self.dwarf.as_ref().map_or(0, Dwarf::heap_bytes)
    }
}
