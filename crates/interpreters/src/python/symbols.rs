//! The symbols by which an interpreter is recognized.
//!
//! They are exported: `.dynsym` has them also in stripped files. `.symtab` is read besides where some are missing there, and in files
//! without `.dynsym`, which are static. In other files `.symtab` may be large and has nothing to tell.

use elf::Layout;
use elf::constants::{SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB, SectionType};

/// Bytes of a symbol table that are read at most.
const MAX_TABLE: usize = 64 << 20;

/// One entry: name (4 bytes), type, visibility, section (2 bytes), address (8 bytes), size (8 bytes).
const ENTRY: usize = 24;

/// Where a symbol is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub address: u64,
    pub size: u64,
}

/// What a symbol tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symbol {
    /// The state of the whole interpreter, from 3.7 on.
    Runtime,
    /// The function that runs Python code, from 3.6 on.
    Evaluator,
    /// The version as a number, from 3.11 on.
    Version,
    /// The function that returns the version as text.
    GetVersion,
    /// The type of code objects.
    CodeType,
    /// Only builds for debugging have it: they count references.
    CountedReferences,
    /// The function that returns the state of the thread that calls it.
    OwnState,
    /// Only PyPy has it.
    PyPy,
}

/// The name of each [`Symbol`], in their order.
const NAMES: [&[u8]; 8] = [
    b"_PyRuntime\0",
    b"_PyEval_EvalFrameDefault\0",
    b"Py_Version\0",
    b"Py_GetVersion\0",
    b"PyCode_Type\0",
    b"_Py_NegativeRefcount\0",
    b"PyGILState_GetThisThreadState\0",
    b"rpython_startup_code\0",
];

/// The symbols of one file.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    found: [Option<Place>; NAMES.len()],
}

impl Symbols {
    pub(super) fn read(layout: &Layout, file: &[u8]) -> Self {
        let mut symbols = Self::default();
        let is_dynamic = symbols.add(layout, file, SHT_DYNSYM);
        if !is_dynamic || symbols.found.iter().any(Option::is_some) {
            symbols.add(layout, file, SHT_SYMTAB);
        }
        symbols
    }

    pub(super) fn get(&self, symbol: Symbol) -> Option<Place> {
        self.found.get(symbol as usize).copied().flatten()
    }

    /// Whether there is such a table.
    fn add(&mut self, layout: &Layout, file: &[u8], kind: SectionType) -> bool {
        let Some(section) = layout.sections.iter().find(|section| section.kind == kind) else { return false };
        let strings = usize::try_from(section.link).ok().and_then(|index| layout.sections.get(index));
        let Some(strings) = strings.and_then(|strings| strings.bytes(file)) else { return true };
        let table = section.bytes(file).unwrap_or_default();
        for entry in table[..table.len().min(MAX_TABLE)].as_chunks::<ENTRY>().0 {
            let [n0, n1, n2, n3, _, _, s0, s1, rest @ ..] = *entry;
            if u16::from_le_bytes([s0, s1]) == SHN_UNDEF.0 {
                continue;
            }
            let Some(name) = strings.get(u32::from_le_bytes([n0, n1, n2, n3]) as usize..) else { continue };
            let Some(index) = NAMES.iter().position(|known| name.starts_with(known)) else { continue };
            let ([address, size], _) = rest.as_chunks::<8>() else { continue };
            let (address, size) = (u64::from_le_bytes(*address), u64::from_le_bytes(*size));
            self.found[index].get_or_insert(Place { address, size });
        }
        true
    }
}
