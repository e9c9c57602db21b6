//! The content of a separate debug file: its debug information and its symbol table.

use std::cell::{Cell, OnceCell};
use std::fs::File;

use elf::constants::SHT_SYMTAB;

use crate::debug_info::DebugInfo;
use crate::elf_file::ElfFile;
use crate::symtab::{Found, SymbolTable};

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
    pub elf: ElfFile,
    pub file: File,
    /// Whether it came from a server.
    pub is_fetched: bool,
    /// Read when an address is asked for.
    symbols: OnceCell<Option<SymbolTable>>,
    /// The table was read in part only, and nobody asked since.
    is_cut: Cell<bool>,
    /// `None` if there is none, if it cannot be read, or while it is being read.
    pub debug_info: Option<DebugInfo>,
}

impl DebugFile {
    /// A debug file that was found.
    pub fn of((file, elf): (File, ElfFile), is_fetched: bool) -> Self {
        let debug_info = elf.has_dwarf().then(|| DebugInfo::of(&elf));
        Self { elf, file, is_fetched, symbols: OnceCell::new(), is_cut: Cell::default(), debug_info }
    }

    /// Frees what can be read again: decompressed sections, the pages of the file.
    pub fn release(&mut self) {
        self.debug_info.iter_mut().for_each(DebugInfo::release);
        self.elf.release();
    }

    pub fn has_symbol_table(&self) -> bool {
        SymbolTable::is_there(&self.elf, SHT_SYMTAB)
    }

    /// Whether nothing in the file can give a name.
    pub fn is_nameless(&self) -> bool {
        self.debug_info.is_none() && self.symbols().is_none_or(SymbolTable::is_empty)
    }

    /// The symbol at a link-time address in the symbol table.
    pub fn symbol(&self, address: u64) -> Found<&[u8]> {
        self.symbols().map_or(Found::nothing(0..u64::MAX), |table| table.find(&self.elf, address))
    }

    /// Tables that were read in part only since the last call.
    pub fn take_cut(&self) -> u64 {
        self.is_cut.take().into()
    }

    fn symbols(&self) -> Option<&SymbolTable> {
        let read = || {
            let table = SymbolTable::read(&self.elf, SHT_SYMTAB)?;
            self.is_cut.set(table.is_cut());
            Some(table)
        };
        self.symbols.get_or_init(read).as_ref()
    }

    /// Bytes that dropping this would free.
    pub fn heap_bytes(&self) -> usize {
        self.symbols.get().and_then(Option::as_ref).map_or(0, SymbolTable::heap_bytes)
            + self.debug_info.as_ref().map_or(0, DebugInfo::heap_bytes)
    }
}
