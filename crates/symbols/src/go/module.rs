//! The linker's description of a Go program (`runtime.firstmoduledata`), found by what it points to.

use object::elf;

use super::Header;
use crate::elf::{ElfFile, u64_of};

/// Position of `text` in the description, in words of 8 bytes: behind six slices and three other words.
const TEXT: u64 = 22;
/// Position of `gofunc`, which Go 1.20 moved by two words.
const DATA_1_18: u64 = 38;
const DATA_1_20: u64 = 40;

/// What the tables are relative to.
#[derive(Debug)]
pub(super) struct Module {
    /// Link-time address of the first function.
    pub text: u64,
    /// Link-time address of the data of functions, if the description was found.
    pub data: Option<u64>,
}

impl Module {
    pub fn find(file: &ElfFile, table: u64, header: &Header) -> Option<Self> {
        let pointers = Pointers::new(file);
        let names = table.checked_add(header.names as u64)?;
        // Two pointers in the right places cannot be a coincidence: to the table and to its names.
        let found = pointers.to(table).into_iter().find(|at| pointers.at(at.wrapping_add(8)) == Some(names));
        let field = |index: u64| pointers.at(found?.checked_add(8 * index)?).filter(|p| *p != 0);
        let text = field(TEXT).or(Some(header.text).filter(|text| *text != 0))?;
        let data = field(if header.has_start_lines { DATA_1_20 } else { DATA_1_18 });
        Some(Self { text, data })
    }
}

/// Pointers in the data of a program, stored in place or by a relocation of the dynamic linker.
struct Pointers<'f> {
    file: &'f ElfFile,
    relocations: Vec<&'f [u8]>,
}

const RELOCATION_SIZE: usize = 24;

impl<'f> Pointers<'f> {
    fn new(file: &'f ElfFile) -> Self {
        let sections = file.sections.iter().filter(|s| s.kind == elf::SHT_RELA && s.is_loaded());
        let relocations = sections.map(|s| file.data(s)).collect();
        Self { file, relocations }
    }

    /// (address, target) of each relocation that just adds the load address.
    fn relative(&self) -> impl Iterator<Item = (u64, u64)> {
        let machine = self.file.machine;
        self.relocations.iter().flat_map(|r| r.chunks_exact(RELOCATION_SIZE)).filter_map(move |entry| {
            let kind = u64_of(&entry[8..16]) as u32;
            let relative = match machine {
                elf::EM_X86_64 => elf::R_X86_64_RELATIVE,
                elf::EM_AARCH64 => elf::R_AARCH64_RELATIVE,
                _ => return None,
            };
            (kind == relative.0).then(|| (u64_of(&entry[0..8]), u64_of(&entry[16..24])))
        })
    }

    /// Where pointers to `target` are stored.
    fn to(&self, target: u64) -> Vec<u64> {
        let mut found: Vec<u64> =
            self.relative().filter(|(_, to)| *to == target).map(|(at, _)| at).take(16).collect();
        let wanted = target.to_le_bytes();
        let data = self
            .file
            .sections
            .iter()
            .filter(|s| s.kind == elf::SHT_PROGBITS && s.is_loaded() && !s.is_code());
        for section in data {
            let bytes = self.file.data(section);
            let words = bytes.chunks_exact(8).enumerate().filter(|(_, word)| **word == wanted);
            found.extend(words.map(|(index, _)| section.address + 8 * index as u64).take(16));
        }
        found
    }

    fn at(&self, address: u64) -> Option<u64> {
        let stored = self.file.at_address(address).and_then(|b| b.get(..8)).map(u64_of).filter(|p| *p != 0);
        stored.or_else(|| self.relative().find(|(at, _)| *at == address).map(|(_, to)| to))
    }
}
