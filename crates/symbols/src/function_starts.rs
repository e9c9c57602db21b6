//! Where the functions of a mapped file begin, and where those end whose symbols have no size: from its unwind information and its code.

use std::cell::RefCell;

use unwind::FunctionIndex;

use crate::elf_file::ElfFile;
use crate::symtab::Found;

/// The functions of one file, read when they are asked for.
#[derive(Default)]
pub(crate) struct FunctionStarts(RefCell<Index>);

#[derive(Default)]
enum Index {
    #[default]
    NotRead,
    Unreadable,
    Read(FunctionIndex),
}

impl FunctionStarts {
    /// The start of the function at each address, in order. `main` is the mapped file.
    pub fn starts(&self, main: &ElfFile, addresses: &[u64]) -> Vec<Option<u64>> {
        let starts = |index: &mut FunctionIndex| index.starts(main.bytes(), addresses, &|| main.release());
        self.with(main, starts).unwrap_or_else(|| vec![None; addresses.len()])
    }

    /// Drops a symbol without a size that may end before the address.
    pub fn proven<N>(&self, main: &ElfFile, address: u64, found: Found<N>) -> Found<N> {
        let Found { around, symbol: Some((name, start)), has_size: false } = found else { return found };
        let end = self.with(main, |index| index.end(main.bytes(), start, around.end, &|| main.release()));
        let end = end.unwrap_or(start).clamp(around.start, around.end);
        if address < end {
            Found { around: around.start..end, symbol: Some((name, start)), has_size: false }
        } else {
            Found::nothing(end..around.end)
        }
    }

    fn with<T>(&self, main: &ElfFile, ask: impl FnOnce(&mut FunctionIndex) -> T) -> Option<T> {
        let mut index = self.0.try_borrow_mut().ok()?;
        if let Index::NotRead = *index {
            let read = FunctionIndex::read(main.bytes(), &|| main.release());
            *index = read.map_or(Index::Unreadable, Index::Read);
        }
        match &mut *index {
            Index::Read(index) => Some(ask(index)),
            Index::NotRead | Index::Unreadable => None,
        }
    }

    pub fn heap_bytes(&self) -> usize {
        match &*self.0.borrow() {
            Index::Read(index) => index.heap_bytes(),
            Index::NotRead | Index::Unreadable => 0,
        }
    }
}
