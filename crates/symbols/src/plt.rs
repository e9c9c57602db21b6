//! Names for the stubs of calls into other libraries: `NAME@plt`.
//!
//! These stubs have no symbols. Each belongs to a relocation, which names the function. Known layouts: x86-64 `.plt` and
//! `.plt.sec`, aarch64 `.plt`.

use std::ops::Range;

use elf::Section;
use elf::constants::{EM_AARCH64, EM_X86_64, Rela64, Sym64};
use object::LittleEndian;

use crate::elf_file::ElfFile;
use crate::symtab::{entries, name_at};

const STUB_SIZE: u64 = 16;

/// Stubs by address.
#[derive(Debug, Default)]
pub(crate) struct PltTable {
    /// Addresses of stubs in the order of their relocations.
    runs: Vec<Range<u64>>,
    /// Positions of the names in the string table.
    names: Vec<u32>,
    strings: Option<Section>,
}

/// Files with more stubs get no names for them: a sparse file can declare any number of relocations.
const MAX_STUBS: usize = 1 << 20;

impl PltTable {
    pub fn read(file: &ElfFile) -> Self {
        Self::try_read(file).unwrap_or_default()
    }

    fn try_read(file: &ElfFile) -> Option<Self> {
        let relocations = file.section(".rela.plt")?;
        let symbols = file.sections().get(relocations.link as usize)?;
        let strings = file.sections().get(symbols.link as usize)?.clone();
        let symbols: &[Sym64<LittleEndian>] = entries(file.data(symbols))?;
        let relocations: &[Rela64<LittleEndian>] = entries(file.data(relocations))?;
        if relocations.len() > MAX_STUBS {
            return None;
        }
        let name = |relocation: &Rela64<LittleEndian>| {
            let symbol = symbols.get(relocation.r_sym(LittleEndian, false) as usize);
            symbol.map_or(0, |symbol| symbol.st_name.get(LittleEndian))
        };
        let names: Vec<u32> = relocations.iter().map(name).collect();
        let mut runs = Vec::new();
        // Stubs of another size (with BTI, with TLS descriptors) would shift the names, so such tables are not used.
        let expected = STUB_SIZE * names.len() as u64;
        let mut add = |section: Option<&Section>, header: u64| {
            if let Some(section) = section.filter(|s| s.size == header + expected) {
                runs.push(section.address.saturating_add(header)..section.addresses().end);
            }
        };
        match file.machine() {
            EM_X86_64 => {
                add(file.section(".plt"), STUB_SIZE);
                add(file.section(".plt.sec"), 0);
            }
            EM_AARCH64 => add(file.section(".plt"), 2 * STUB_SIZE),
            _ => return None,
        }
        Some(Self { runs, names, strings: Some(strings) })
    }

    /// The name of the stub at an address, and the start of the stub; and the addresses around it of which the same is true. `file` is the file
    /// that the table was read from.
    pub fn find(&self, file: &ElfFile, address: u64) -> (Range<u64>, Option<(String, u64)>) {
        let Some(run) = self.runs.iter().find(|run| run.contains(&address)) else {
            let start = self.runs.iter().map(|run| run.end).filter(|end| *end <= address).max();
            let end = self.runs.iter().map(|run| run.start).filter(|start| *start > address).min();
            return (start.unwrap_or(0)..end.unwrap_or(u64::MAX), None);
        };
        let index = (address - run.start) / STUB_SIZE;
        let start = run.start + index * STUB_SIZE;
        let name = self.name(file, index).map(|name| (name, start));
        (start..start.saturating_add(STUB_SIZE), name)
    }

    fn name(&self, file: &ElfFile, index: u64) -> Option<String> {
        let position = *self.names.get(usize::try_from(index).ok()?)?;
        let name = name_at(file.data(self.strings.as_ref()?), position)?;
        (!name.is_empty()).then(|| format!("{}@plt", String::from_utf8_lossy(name)))
    }

    pub fn heap_bytes(&self) -> usize {
        self.names.capacity() * size_of::<u32>()
    }
}
