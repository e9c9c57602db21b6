//! Where the functions of a file return, for probes at these places: what crate `unwind` finds in the code, with the symbols and
//! relocations of the file.

use std::collections::HashMap;
use std::ops::Range;

use elf::constants::{R_X86_64_64, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT, SHT_DYNSYM, SHT_RELA, SHT_SYMTAB};
use unwind::{Callee, ExitIndex, JumpsOut, Question, Symbols, Unfollowed};

use crate::image::Image;
use crate::symbol_table::{name_at, symbols};

/// Relocations that are read.
const MAX_RELOCATIONS: usize = 4 << 20;
/// Bytes of the names of imported functions. A jump to one without a name is not followed.
const MAX_NAMES: usize = 16 << 20;
/// Bytes of a relocation.
const RELOCATION: usize = 24;
/// What the names of parts of functions contain that GCC and clang place apart.
const PART: &[u8] = b".cold";

/// A place at which a function ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionExit {
    /// The offset of the instruction in the file.
    pub offset: u64,
    /// Its link-time address.
    pub address: u64,
    /// It jumps to another function, which returns in place of this one.
    pub is_jump: bool,
}

/// Where the calls of a function return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallReturns {
    /// Each return is behind a call of one of the functions that were named as inner ones.
    BehindInner,
    /// At these offsets in the file. Some may be in other functions, to which this one jumps.
    At(Vec<u64>),
}

/// What is known of the code of a file.
#[derive(Debug)]
pub(crate) struct CodeIndex {
    exits: ExitIndex,
    /// Start, end and kind of sized symbols, by start.
    extents: Vec<Extent>,
    /// Names by the place to which the loader writes their addresses.
    imports: HashMap<u64, String>,
}

#[derive(Clone, Copy, Debug)]
struct Extent {
    start: u64,
    end: u64,
    is_part: bool,
}

impl CodeIndex {
    /// Reads the code of a file; `debug`: its separate debug file.
    pub(crate) fn read(image: &Image, debug: Option<&Image>) -> Result<Self, Unfollowed> {
        let exits = ExitIndex::read(&image.bytes)?;
        let tables = [(Some(image), SHT_SYMTAB), (Some(image), SHT_DYNSYM), (debug, SHT_SYMTAB)];
        let tables = tables.into_iter().filter_map(|(image, kind)| Some((image?, kind)));
        let mut extents: Vec<Extent> = tables
            .flat_map(|(image, kind)| symbols(image, kind))
            .filter(|symbol| symbol.size > 0)
            .map(|symbol| Extent {
                start: symbol.address,
                end: symbol.address.saturating_add(symbol.size),
                is_part: symbol.name.windows(PART.len()).any(|part| part == PART),
            })
            .collect();
        // Of several symbols at one place, the longest comes last and is kept.
        extents.sort_by_key(|extent| (extent.start, std::cmp::Reverse(extent.end)));
        extents.dedup_by(|next, first| next.start == first.start);
        Ok(Self { exits, extents, imports: imports(image) })
    }

    /// The exits of a function. A jump to another function is one.
    pub(crate) fn exits(&self, image: &Image, entry: u64) -> Result<Vec<FunctionExit>, Unfollowed> {
        let question = Question {
            entry,
            symbols: self,
            jumps_out: JumpsOut::Exit,
            ends_at: &|_| false,
            landing_pads: true,
        };
        let exits = self.exits.exits(&image.bytes, &question)?;
        let all = exits.returns.iter().map(|at| (*at, false)).chain(exits.jumps.iter().map(|at| (*at, true)));
        let exit = |(address, is_jump)| {
            let offset = image.code_offset(address).ok_or(Unfollowed::Extent { at: address })?;
            Ok(FunctionExit { offset, address, is_jump })
        };
        all.map(exit).collect()
    }

    /// Where the calls of a function return, through all functions to which it jumps.
    pub(crate) fn call_returns(
        &self,
        image: &Image,
        entry: u64,
        is_inner: &dyn Fn(Callee<'_>) -> bool,
    ) -> Result<CallReturns, Unfollowed> {
        let question = Question {
            entry,
            symbols: self,
            jumps_out: JumpsOut::Follow,
            ends_at: is_inner,
            landing_pads: false,
        };
        // Where one way out is unknown, another function than the inner ones may have the result.
        let behind = self.exits.exits(&image.bytes, &question);
        if behind.is_ok_and(|exits| exits.returns.is_empty()) {
            return Ok(CallReturns::BehindInner);
        }
        let question = Question { ends_at: &|_| false, landing_pads: true, ..question };
        let exits = self.exits.exits(&image.bytes, &question)?;
        let offset = |at: u64| image.code_offset(at).ok_or(Unfollowed::Extent { at });
        exits.returns.into_iter().map(offset).collect::<Result<_, _>>().map(CallReturns::At)
    }

    /// Whether a function begins at an address.
    pub(crate) fn begins_at(&self, address: u64) -> bool {
        self.exits.begins_at(address)
            || self.extents.binary_search_by_key(&address, |extent| extent.start).is_ok()
    }

    fn covering(&self, address: u64) -> Option<&Extent> {
        let behind = self.extents.partition_point(|extent| extent.start <= address);
        self.extents.get(behind.checked_sub(1)?).filter(|extent| address < extent.end)
    }
}

impl Symbols for CodeIndex {
    fn extent(&self, address: u64) -> Option<Range<u64>> {
        self.covering(address).map(|extent| extent.start..extent.end)
    }

    fn is_part(&self, address: u64) -> bool {
        self.covering(address).is_some_and(|extent| extent.start == address && extent.is_part)
    }

    fn import(&self, slot: u64) -> Option<&str> {
        self.imports.get(&slot).map(String::as_str)
    }
}

/// The functions whose addresses the loader writes into the file's memory.
fn imports(image: &Image) -> HashMap<u64, String> {
    let sections = &image.layout.sections;
    let tables = sections.iter().filter(|section| section.kind == SHT_RELA && section.is_loaded());
    let mut found = HashMap::new();
    let (mut left, mut room) = (MAX_RELOCATIONS, MAX_NAMES);
    for table in tables {
        let Some(symbols) = sections.get(table.link as usize) else { continue };
        let names = sections.get(symbols.link as usize).and_then(|names| names.bytes(&image.bytes));
        let symbols = symbols.bytes(&image.bytes).unwrap_or_default();
        let entries = table.bytes(&image.bytes).unwrap_or_default().chunks_exact(RELOCATION);
        for entry in entries.take(left) {
            left -= 1;
            let word = |at: usize| Some(u64::from_le_bytes(*entry.get(at..)?.first_chunk()?));
            let (Some(slot), Some(info)) = (word(0), word(8)) else { continue };
            let kind = info as u32;
            if ![R_X86_64_JUMP_SLOT.0, R_X86_64_GLOB_DAT.0, R_X86_64_64.0].contains(&kind) {
                continue;
            }
            let name = name_at(symbols, names.unwrap_or_default(), (info >> 32) as usize);
            if let Some(name) = name.filter(|name| name.len() <= room) {
                room -= name.len();
                found.insert(slot, name);
            }
        }
    }
    found
}
