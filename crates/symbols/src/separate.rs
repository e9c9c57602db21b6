//! The content of a separate debug file: its debug information and its symbol table.

use std::fs::File;

use elf::constants::SHT_SYMTAB;

use crate::debug_info::DebugInfo;
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
    pub file: File,
    symbols: Option<SymbolTable>,
    /// `None` if there is none, if it cannot be read, or while it is being read.
    pub debug_info: Option<DebugInfo>,
}

impl DebugFile {
    /// Reads a debug file that was found.
    pub fn read((file, elf): (File, ElfFile), stats: &mut Stats) -> Self {
        let symbols = SymbolTable::read(&elf, SHT_SYMTAB);
        stats.cut_symbol_tables += u64::from(symbols.as_ref().is_some_and(SymbolTable::is_cut));
        let debug_info = elf.has_dwarf().then(|| DebugInfo::of(&elf));
        Self { elf, file, symbols, debug_info }
    }

    /// Frees what can be read again: decompressed sections, the pages of the file.
    pub fn release(&mut self) {
        self.debug_info.iter_mut().for_each(DebugInfo::release);
        self.elf.release();
    }

    pub fn has_symbol_table(&self) -> bool {
        self.symbols.is_some()
    }

    /// Whether nothing in the file can give a name.
    pub fn is_nameless(&self) -> bool {
        self.debug_info.is_none() && self.symbols.as_ref().is_none_or(SymbolTable::is_empty)
    }

    /// The name at a link-time address in the symbol table, and the start of its symbol.
    pub fn symbol(&self, address: u64) -> Option<(&[u8], u64)> {
        self.symbols.as_ref()?.find(&self.elf, address)
    }

    /// Bytes that dropping this would free.
    pub fn heap_bytes(&self) -> usize {
        self.symbols.as_ref().map_or(0, SymbolTable::heap_bytes)
            + self.debug_info.as_ref().map_or(0, DebugInfo::heap_bytes)
    }
}
