//! Where functions begin in a file without symbols.
//!
//! Of `.eh_frame`, each description covers one function or one part of a function. Of code without a description (x86-64), the analysis
//! of code tells which function it belongs to, as far as the function has no gaps and shares nothing; where that is too much code, the
//! layout of the code around each address tells it ([`laid_out`]). Stubs of calls into other files are not functions. The answer
//! depends on the file alone, so it is the same in each run.
//!
//! A function without a size ends where control no longer reaches its code ([`reached`]), or where another one begins.
//!
//! Guaranteed: an address has the start of the function that it is in, or of the part of a function that it is in, or none. A part is
//! tied to its function only by the proof of [`parts`]. No input causes a panic, and time and memory are bounded for any input.

mod described;
mod laid_out;
mod parts;
mod reached;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use elf::constants::{SHF_EXECINSTR, SHT_NOBITS};

use crate::Error;
use crate::cfi::CfaRule;
use crate::cfi::program::Program;
use crate::cfi::section::{Cie, Fde};
use crate::codewalk;
use crate::frames;
use crate::image::Image;
use crate::known;
use crate::layer::RuleSet;
use crate::machine::Machine;
use crate::stub_sections::stubs;
use crate::table::Stats;
use crate::x86_64;

use described::Described;
pub(crate) use described::Kind;
pub(crate) use described::covering;

/// The functions of one file.
#[derive(Debug)]
pub struct FunctionIndex {
    /// By start; disjoint.
    described: Vec<Described>,
    /// The functions of parts, once they are searched. A part without one is not in it.
    parents: Option<HashMap<u64, u64>>,
    /// Code without a description, once it is analysed.
    undescribed: Option<Undescribed>,
    /// What `.debug_frame` of a debug file describes, by start; disjoint. The code and `.eh_frame` are in another file.
    of_debug_file: Vec<Range<u64>>,
}

/// Code without a description, and what is known of it.
#[derive(Debug)]
enum Undescribed {
    /// All that belongs to a known function, and the start of that.
    Analysed(Vec<(Range<u64>, u64)>),
    /// Too much to analyse: where it lies, sorted and disjoint, and the functions that were asked for so far.
    LaidOut { gaps: Vec<Range<u64>>, known: BTreeMap<u64, u64> },
}

impl Undescribed {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Analysed(all) => all.capacity() * size_of::<(Range<u64>, u64)>(),
            Self::LaidOut { gaps, known } => {
                gaps.capacity() * size_of::<Range<u64>>() + known.len() * size_of::<(u64, u64)>() * 2
            }
        }
    }
}

impl FunctionIndex {
    /// Parts of one function that [`Self::parts_of`] tells at most.
    pub const MAX_PARTS: usize = 8;

    /// Reads the descriptions of an ELF file; `release` is called as by [`crate::compile_releasing`].
    ///
    /// # Errors
    /// As [`crate::compile`].
    pub fn read(elf: &[u8], release: &dyn Fn()) -> Result<Self, Error> {
        let image = Image::parse_without_code(elf)?.releasing(release);
        let (mut described, mut of_debug_file) = (Vec::new(), Vec::new());
        if is_debug_file(&image) {
            of_debug_file = frames::described_in_debug_frame(&image);
        } else if image.code.is_empty() {
            return Err(Error::NoExecutableSegment);
        } else {
            described = self::described(&image);
        }
        Ok(Self { described, parents: None, undescribed: None, of_debug_file })
    }

    /// The start of the function at each address, in order. `elf` is the file that this was read from.
    pub fn starts(&mut self, elf: &[u8], addresses: &[u64], release: &dyn Fn()) -> Vec<Option<u64>> {
        let Ok(image) = Image::parse(elf).map(|image| image.releasing(release)) else {
            return vec![None; addresses.len()];
        };
        addresses.iter().map(|address| self.start(&image, *address)).collect()
    }

    /// The end of the code that surely belongs to the function that begins at `start`: at most `limit`, where other code is known to begin.
    /// Code behind the end may belong to another function. Without the code of the file, `.debug_frame` shows the end; else only the byte at
    /// `start` is sure. `elf` is the file that this was read from.
    pub fn end(&mut self, elf: &[u8], start: u64, limit: u64, release: &dyn Fn()) -> u64 {
        let image = Image::parse_without_code(elf).map(|image| image.releasing(release));
        image.map_or(start, |image| self.end_in(&image, start, limit))
    }

    /// The parts of a function that lie apart from it: the code that it jumps to, itself or through other parts of it, and that does not
    /// begin as functions do. `elf` is the file that this was read from, `function` the code of the function. At most [`Self::MAX_PARTS`]
    /// parts, in the order in which they are found.
    #[must_use]
    pub fn parts_of(&self, elf: &[u8], function: Range<u64>, release: &dyn Fn()) -> Vec<Range<u64>> {
        let Ok(image) = Image::parse(elf).map(|image| image.releasing(release)) else { return Vec::new() };
        parts::reached(&image, &self.described, function, Self::MAX_PARTS)
    }

    /// The described code that contains these addresses, and all that it jumps to, directly or through other code: functions that end in
    /// jumps to each other, and their parts. `None` if there are more than `max`. `elf` is the file that this was read from.
    #[must_use]
    pub fn jumping_together(&self, elf: &[u8], addresses: &[u64], max: usize) -> Option<Vec<Range<u64>>> {
        let image = Image::parse(elf).ok()?;
        parts::closure(&image, &self.described, addresses, max)
    }

    /// The described code that the code of a range calls directly, at most `max` pieces, in the order of the calls.
    #[must_use]
    pub fn called_by(&self, elf: &[u8], from: Range<u64>, max: usize) -> Vec<Range<u64>> {
        let Ok(image) = Image::parse(elf) else { return Vec::new() };
        parts::called(&image, &self.described, from, max)
    }

    /// Whether a described function begins at an address.
    #[must_use]
    pub fn begins_at(&self, address: u64) -> bool {
        let found = covering(&self.described, address, Described::range);
        found.is_some_and(|found| found.start == address && found.kind == Kind::Function)
    }

    /// Bytes that dropping this would free.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.described.capacity() * size_of::<Described>()
            + self.parents.as_ref().map_or(0, |parents| parents.capacity() * size_of::<(u64, u64)>())
            + self.undescribed.as_ref().map_or(0, Undescribed::heap_bytes)
            + self.of_debug_file.capacity() * size_of::<Range<u64>>()
    }

    fn start(&mut self, image: &Image<'_>, address: u64) -> Option<u64> {
        let Some(found) = covering(&self.described, address, Described::range) else {
            return self.of_analysis(image, address);
        };
        match found.kind {
            Kind::Function => Some(found.start),
            Kind::Stubs => None,
            Kind::MaybePart => {
                let parents = self.parents.get_or_insert_with(|| parts::parents(image, &self.described));
                Some(parents.get(&found.start).copied().unwrap_or(found.start))
            }
        }
    }

    fn end_in(&mut self, image: &Image<'_>, start: u64, limit: u64) -> u64 {
        let behind = self.described.partition_point(|described| described.start <= start);
        let limit = self.described.get(behind).map_or(limit, |next| limit.min(next.start));
        if let Some(found) = covering(&self.described, start, Described::range) {
            return limit.min(found.range().end);
        }
        if is_debug_file(image) {
            let end = covering(&self.of_debug_file, start, Range::clone).map_or(start, |found| found.end);
            return end.max(start.saturating_add(1)).min(limit);
        }
        let Some(limit) = image.code_at(start).map(|code| limit.min(code.end)) else { return start };
        let end = reached::end(image, start, limit);
        if end == limit || image.machine == Machine::Aarch64 {
            return end;
        }
        let Undescribed::Analysed(all) = self.undescribed.get_or_insert_with(|| undescribed(image)) else {
            return end;
        };
        end_by_analysis(all, start, end).min(limit)
    }

    fn of_analysis(&mut self, image: &Image<'_>, address: u64) -> Option<u64> {
        if image.machine == Machine::Aarch64 || image.code_at(address).is_none() || is_debug_file(image) {
            return None;
        }
        match self.undescribed.get_or_insert_with(|| undescribed(image)) {
            Undescribed::Analysed(all) => {
                covering(all, address, |(range, _)| range.clone()).map(|(_, start)| *start)
            }
            Undescribed::LaidOut { gaps, known } => {
                let before = known.range(..=address).next_back();
                if let Some((start, _)) = before.filter(|(_, end)| address < **end) {
                    return Some(*start);
                }
                let gap = covering(gaps, address, Range::clone)?;
                let function = laid_out::function_at(image, gap, address)?;
                known.insert(function.start, function.end);
                Some(function.start)
            }
        }
    }
}

/// The end of the function at `start` among analysed ones. It has at least the code until `reached`, as far as no other one begins there.
fn end_by_analysis(all: &[(Range<u64>, u64)], start: u64, reached: u64) -> u64 {
    let from = all.partition_point(|(range, _)| range.end <= start);
    let (mut end, mut owner) = (reached, None);
    for (range, function) in all.get(from..).unwrap_or_default() {
        if range.start > end {
            break;
        }
        // Before the start: the symbol is inside of a function.
        if range.start > start && owner != Some(*function) && *function > start {
            return range.start;
        }
        owner = Some(*function);
        end = end.max(range.end);
    }
    end
}

/// Whether the code of a file is elsewhere: the file offsets in a separate debug file mean nothing.
fn is_debug_file(image: &Image<'_>) -> bool {
    image
        .layout
        .sections
        .iter()
        .any(|section| section.kind == SHT_NOBITS && section.flags.0 & SHF_EXECINSTR.0 != 0)
}

fn described(image: &Image<'_>) -> Vec<Described> {
    let stubs = stubs(image);
    let mut all = Vec::new();
    frames::each_eh_frame(image, |fde, end, cie| {
        let is_stubs = stubs.iter().any(|stubs| stubs.contains(&fde.start));
        let (first, kind) = if is_stubs { (fde.start, Kind::Stubs) } else { of_description(image, fde, cie) };
        if let (true, Ok(len)) = (first < end, u32::try_from(end.saturating_sub(first))) {
            all.push(Described { start: first, len, kind });
        }
    });
    all
}

/// Where the code of a description begins, and what it is by its first row.
pub(crate) fn of_description(image: &Image<'_>, fde: &Fde<'_>, cie: &Cie<'_>) -> (u64, Kind) {
    // A handler returns to the first instruction of a signal trampoline, and return addresses are looked up one byte before, so its
    // description begins with the padding before it.
    if cie.signal {
        let padding = image.machine == Machine::X86_64
            && image.bytes_at(fde.start).and_then(<[u8]>::first) == Some(&x86_64::NOP);
        return (fde.start.saturating_add(u64::from(padding)), Kind::Function);
    }
    let mut program = Program::new(&cie.factors, fde.instructions, cie.initial, fde.start);
    let is_readable = program.next_row().is_some();
    let kind = match (is_readable, program.state.cfa) {
        (true, CfaRule::Expression(expression)) if x86_64::is_plt_expression(expression) => Kind::Stubs,
        (true, cfa) if cfa == image.machine.cfa_at_entry() => Kind::Function,
        _ => Kind::MaybePart,
    };
    (fde.start, kind)
}

/// Code without a description. The entry point has no callers by which its code could be understood, and is known.
fn undescribed(image: &Image<'_>) -> Undescribed {
    let (mut rules, mut stats) = (RuleSet::new(), Stats::default());
    let covered = known(image, &mut rules, &mut stats);
    let mut all = match codewalk::functions(image, &covered) {
        Ok(all) => all,
        Err(codewalk::TooMuch(gaps)) => return Undescribed::LaidOut { gaps, known: BTreeMap::new() },
    };
    let entry = covered.spans.iter().find(|span| span.start == image.entry);
    if let Some(entry) = entry {
        let at = all.partition_point(|(range, _)| range.start < entry.start);
        all.insert(at, (entry.start..entry.end, entry.start));
    }
    Undescribed::Analysed(all)
}
