//! The linker's description of a Go program (`runtime.firstmoduledata`). It has no symbol in stripped programs and is
//! found by its pointers to the table.

use std::collections::{HashMap, HashSet};

use object::elf::{EM_AARCH64, EM_X86_64, R_AARCH64_RELATIVE, R_X86_64_RELATIVE, SHT_RELA};

use super::find::{BLOCK, data_ranges};
use super::table::PcLnTab;
use super::version::Version;
use crate::layout::Layout;

/// Position of the pointer to the names in the description.
const NAMES: u64 = 8;
/// Position of `text` in the description: behind a pointer, six slices, and three other words.
const TEXT: u64 = 22 * 8;
/// Position of `gofunc`, which Go 1.20 moved by two words.
const DATA_1_18: u64 = 38 * 8;
const DATA_1_20: u64 = 40 * 8;
/// Places that are tried; programs have one or two pointers to the table.
const MAX_CANDIDATES: usize = 64;
/// Bytes of relocations that are read.
const MAX_RELOCATIONS: usize = 256 << 20;
const RELOCATION_SIZE: usize = 24;

/// What the table is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module {
    /// Link-time address of the start of the text.
    pub text: Option<u64>,
    /// Link-time address that the positions of other data of functions are relative to.
    pub data: Option<u64>,
    /// Whether the description also points to the names of the table. Two pointers in the right places are no
    /// coincidence.
    pub points_to_names: bool,
}

/// Everything that may be the description of the program, because it begins with a pointer to the table. `touched` is
/// called as by [`super::find()`].
#[must_use]
pub fn modules(layout: &Layout, file: &[u8], table: &PcLnTab<'_>, touched: &dyn Fn()) -> Vec<Module> {
    let pointers = Pointers::new(layout, file);
    let places = pointers.to(table.address, touched);
    let data = if table.version >= Version::Go120 { DATA_1_20 } else { DATA_1_18 };
    let fields = |place: &u64| [NAMES, TEXT, data].map(|offset| place.wrapping_add(offset));
    let targets = pointers.at(places.iter().flat_map(fields));
    let module = |place: &u64| {
        let [names, text, data] = fields(place).map(|field| targets.get(&field).copied());
        Module { text, data, points_to_names: names == Some(table.names_address()) }
    };
    places.iter().map(module).collect()
}

/// Pointers in the data of a program, stored in place or by a relocation of the dynamic linker.
struct Pointers<'l, 'f> {
    layout: &'l Layout,
    file: &'f [u8],
    relocations: Vec<&'f [u8]>,
}

impl<'l, 'f> Pointers<'l, 'f> {
    fn new(layout: &'l Layout, file: &'f [u8]) -> Self {
        // Sections that do not overlap are together no longer than the file.
        let mut left = MAX_RELOCATIONS.min(file.len());
        let tables = layout.sections.iter().filter(|section| section.kind == SHT_RELA && section.is_loaded());
        let relocations = tables.filter_map(|section| {
            let bytes = section.bytes(file)?;
            left = left.checked_sub(bytes.len())?;
            Some(bytes)
        });
        Self { layout, file, relocations: relocations.collect() }
    }

    /// Place and target of each relocation that adds the load address to a link-time address.
    fn relative(&self) -> impl Iterator<Item = (u64, u64)> {
        let relative = match self.layout.machine {
            EM_X86_64 => Some(R_X86_64_RELATIVE),
            EM_AARCH64 => Some(R_AARCH64_RELATIVE),
            _ => None,
        };
        let entries = self.relocations.iter().flat_map(|table| table.as_chunks::<RELOCATION_SIZE>().0);
        entries.filter_map(move |entry| {
            let (words, _) = entry.as_chunks::<8>();
            let [place, info, target] = [words[0], words[1], words[2]].map(u64::from_le_bytes);
            (Some(info as u32) == relative.map(|kind| kind.0)).then_some((place, target))
        })
    }

    /// Where pointers to `target` are.
    fn to(&self, target: u64, touched: &dyn Fn()) -> Vec<u64> {
        let relocated = self.relative().filter(|(_, to)| *to == target).map(|(place, _)| place);
        let mut places: Vec<u64> = relocated.take(MAX_CANDIDATES).collect();
        let wanted = target.to_le_bytes();
        let mut left = self.file.len();
        for (address, len) in data_ranges(self.layout) {
            let Some(bytes) = self.layout.bytes_at(self.file, address) else { continue };
            let len = usize::try_from(len).unwrap_or(usize::MAX).min(bytes.len()).min(left);
            left -= len;
            let misaligned = (address.wrapping_neg() & 7) as usize;
            let blocks = bytes[..len].get(misaligned..).unwrap_or_default().chunks(BLOCK);
            for (number, block) in blocks.enumerate() {
                touched();
                let hits = block.as_chunks::<8>().0.iter().enumerate().filter(|(_, word)| **word == wanted);
                let start = address.wrapping_add((misaligned + number * BLOCK) as u64);
                places.extend(hits.map(|(index, _)| start.wrapping_add(8 * index as u64)));
                if places.len() >= 2 * MAX_CANDIDATES {
                    places.truncate(2 * MAX_CANDIDATES);
                    return places;
                }
            }
        }
        places
    }

    /// The pointers at some addresses. Zero is none.
    fn at(&self, addresses: impl Iterator<Item = u64>) -> HashMap<u64, u64> {
        let stored = |address: u64| {
            let word = self.layout.bytes_at(self.file, address)?.first_chunk()?;
            Some(u64::from_le_bytes(*word)).filter(|pointer| *pointer != 0)
        };
        let (mut found, mut wanted) = (HashMap::new(), HashSet::new());
        for address in addresses {
            match stored(address) {
                Some(pointer) => drop(found.insert(address, pointer)),
                None => drop(wanted.insert(address)),
            }
        }
        // One pass for all: there may be millions of relocations.
        for (place, target) in
            self.relative().filter(|(place, target)| wanted.contains(place) && *target != 0)
        {
            found.entry(place).or_insert(target);
        }
        found
    }
}
