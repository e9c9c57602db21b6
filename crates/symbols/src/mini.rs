//! The symbol table that some distributions leave in stripped programs ("MiniDebugInfo"): a compressed ELF file in the
//! section `.gnu_debugdata`. It has the functions that the dynamic symbol table lacks.

use elf::constants::SHT_SYMTAB;

use crate::elf_file::{Bytes, ElfFile};
use crate::symtab::{Found, SymbolTable};
use crate::xz::decompress;

/// Bytes of the decompressed file. The largest programs have some MiB.
const MAX_SIZE: usize = 32 << 20;

/// The symbols, and the file in memory that holds their names.
#[derive(Debug)]
pub(crate) struct MiniDebugInfo {
    file: ElfFile,
    symbols: SymbolTable,
    size: usize,
}

impl MiniDebugInfo {
    /// `None` if there is none or if it cannot be read.
    pub fn read(file: &ElfFile) -> Option<Self> {
        let bytes = decompress(file.data(file.section(".gnu_debugdata")?), MAX_SIZE)?;
        let size = bytes.len();
        let file = ElfFile::parse(Bytes::Memory(bytes.into()))?;
        let symbols = SymbolTable::read(&file, SHT_SYMTAB)?;
        Some(Self { file, symbols, size })
    }

    /// The symbol at a link-time address.
    pub fn find(&self, address: u64) -> Found<&[u8]> {
        self.symbols.find(&self.file, address)
    }

    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    pub fn heap_bytes(&self) -> usize {
        self.size + self.symbols.heap_bytes()
    }
}
