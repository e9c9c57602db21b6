//! The entry point: sorted addresses in, functions, inlined calls and lines out, and what was read kept as records.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use gimli::DwarfFileType;
use hashbrown::HashMap;

use crate::code::Code;
use crate::index::Index;
use crate::limits::{MAX_KEPT_RANGES, MAX_RECORDS, Work};
use crate::names::{Context, Kept, Place};
use crate::records::{Found, Frame, Records, Room};
use crate::saved::{Parts, Saved, SharedBytes};
use crate::sections::Sections;
use crate::split::{SplitSource, SplitUnit};
use crate::stats::Stats;
use crate::texts::{TextId, Texts};
use crate::unit::{Hits, KnownUnit, Scratch, UnitReader};
use crate::units::{UnitHead, Units};
use crate::view::Space;

/// The debug information of a file, for one look-up.
#[derive(Clone, Copy)]
pub struct DebugFile<'a> {
    /// Its sections.
    pub sections: Sections<'a>,
    /// Those of its supplementary file (made by `dwz`).
    pub supplementary: Option<Sections<'a>>,
    /// The address ranges of its code, sorted. Other functions were dropped by the linker.
    pub code: &'a [Range<u64>],
    /// Whether an address may be in a function, as far as the caller knows; `&|_| true` if it knows nothing. Where no function is found at
    /// an address that may be in one, the unit is read a second time, in full.
    pub has_function: &'a dyn Fn(u64) -> bool,
    /// Whether a linkage name can be made readable without losing a part. If not, the frame has the name in the source.
    pub is_readable: fn(&str) -> bool,
}

/// What was read of one file. It holds no bytes of the file.
#[derive(Debug, Default)]
pub struct Reader {
    units: Option<Arc<Units>>,
    supplementary: Option<Arc<Units>>,
    index: Index,
    /// By number of the unit.
    known_units: HashMap<u32, KnownUnit>,
    /// Ranges in [`Self::known_units`].
    kept: usize,
    records: Records,
    texts: Texts,
    kept_entries: Kept,
    stats: Stats,
    generation: u64,
    /// Some look-up was given up: what it found may be incomplete.
    gave_up: bool,
}

impl Reader {
    /// Reads nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks addresses up, in any order; answers in the same order. `None` for addresses of which nothing is known. The file must be the same
    /// in all calls.
    ///
    /// Batches are cheap, single addresses are not: each unit is read once for all addresses in it.
    pub fn find(
        &mut self,
        file: &DebugFile<'_>,
        split: &mut dyn SplitSource,
        addresses: &[u64],
    ) -> Vec<Option<Found>> {
        let sorted = sorted(addresses);
        self.learn(file, split, &sorted);
        let mut found: Vec<Option<Found>> = Vec::with_capacity(sorted.len());
        self.answers(&sorted, |frames, function| {
            let answer = Found { frames: frames.to_vec(), function };
            found.push(Some(answer).filter(|answer| !answer.frames.is_empty()));
        });
        if addresses == &*sorted {
            return found;
        }
        let position = |address: &u64| sorted.binary_search(address).ok();
        addresses.iter().map(|address| found.get(position(address)?).cloned().flatten()).collect()
    }

    /// Reads all that the file says of addresses, for [`Self::answers`]. The file must be the same in all calls.
    pub fn learn(&mut self, file: &DebugFile<'_>, split: &mut dyn SplitSource, addresses: &[u64]) {
        if self.texts.is_full() || self.records.heap_bytes() > MAX_RECORDS {
            self.forget();
        }
        self.read(file, split, &sorted(addresses));
    }

    /// What [`Self::learn`] read of sorted addresses: `each` is given the functions at each, none if nothing is known, and the first address of the
    /// outermost one.
    pub fn answers(&self, sorted: &[u64], each: impl FnMut(&[Frame], Option<u64>)) {
        self.answer(sorted, |_| true, each);
    }

    /// The same from what is known already, of sorted addresses: `each` is given the functions at each, none if nothing is known, and the first address
    /// of the outermost one. `false` if something must be read for one of the addresses; then `each` was called for some of them.
    pub fn known(&self, sorted: &[u64], each: impl FnMut(&[Frame], Option<u64>)) -> bool {
        self.answer(sorted, |address| self.records.is_nothing(address), each)
    }

    /// Answers sorted addresses, up to the first one without a record of which `is_nothing` does not hold.
    fn answer(
        &self,
        sorted: &[u64],
        is_nothing: impl Fn(u64) -> bool,
        mut each: impl FnMut(&[Frame], Option<u64>),
    ) -> bool {
        let mut room = Room::default();
        let mut rest = sorted;
        while let Some(first) = rest.first().copied() {
            let here = match self.records.find(first) {
                Some((start, end, place)) => {
                    let here = rest.partition_point(|address| *address < end).max(1);
                    let mut missing = here;
                    self.records.answer((start, place), &rest[..here], &mut room, |frames, function| {
                        missing -= 1;
                        each(frames, function);
                    });
                    // Of a damaged record.
                    (0..missing).for_each(|_| each(&[], None));
                    here
                }
                None if is_nothing(first) => {
                    each(&[], None);
                    1
                }
                None => return false,
            };
            rest = &rest[here..];
        }
        true
    }

    /// Uses what an earlier reader of the same file saved, which is the given part of the bytes. To be called before the first look-up. `false`
    /// if the bytes are damaged.
    pub fn restore(&mut self, bytes: SharedBytes, part: Range<usize>) -> bool {
        let Some(saved) = Saved::read(bytes, part) else { return false };
        self.forget();
        self.texts = Texts::restore(saved.clone());
        self.records.restore(saved);
        true
    }

    /// Whether more is known than was restored.
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.records.has_news()
    }

    /// All that is known, for [`Self::restore`]. Texts keep their numbers. `None` if it is not complete, because a file asked for too much work, or
    /// too large.
    #[must_use]
    pub fn save(&self) -> Option<Vec<u8>> {
        if self.gave_up {
            return None;
        }
        let texts = (0..self.texts.len()).map(|number| TextId(number as u32));
        let texts = texts.map(|id| self.text(id)).collect();
        Parts { records: self.records.all(), nothing: self.records.all_nothing(), texts }.to_bytes()
    }

    /// How many texts there are: their numbers are below.
    #[must_use]
    pub fn texts(&self) -> usize {
        self.texts.len()
    }

    /// The text of a name or path.
    #[must_use]
    pub fn text(&self, id: TextId) -> &str {
        self.texts.get(id).unwrap_or_default()
    }

    /// The text of a name or path, for keeping.
    #[must_use]
    pub fn shared_text(&self, id: TextId) -> Arc<str> {
        self.texts.shared(id).unwrap_or_default()
    }

    /// Changes when the numbers of names and paths become void, which happens at the beginning of a look-up if there are too many.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// What could not be read so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// About the bytes that dropping this would free.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let units = self.units.iter().chain(&self.supplementary);
        units.map(|units| units.heads.capacity() * size_of::<UnitHead>()).sum::<usize>()
            + self.index.heap_bytes()
            + self.kept * 48
            + self.records.heap_bytes()
            + self.texts.heap_bytes()
            + self.kept_entries.heap_bytes()
    }

    /// Drops records and texts, whose numbers are void from then on.
    fn forget(&mut self) {
        self.records = Records::default();
        self.texts = Texts::default();
        // It has numbers of texts.
        self.kept_entries = Kept::default();
        self.known_units.clear();
        self.kept = 0;
        self.generation += 1;
    }

    /// Makes records of all addresses that have none.
    fn read(&mut self, file: &DebugFile<'_>, split: &mut dyn SplitSource, sorted: &[u64]) {
        let is_unknown =
            |address: &u64| self.records.find(*address).is_none() && !self.records.is_nothing(*address);
        let unknown: Vec<u64> = sorted.iter().copied().filter(is_unknown).collect();
        if unknown.is_empty() || file.sections.info.is_empty() {
            return;
        }
        let others = file.supplementary.as_ref().map_or(0, Sections::len);
        let mut work = Work::of(file.sections.len() + others);
        let code = Code::new(file.code);
        let supplementary = file.supplementary.map(|sections| {
            let units = self.supplementary.get_or_insert_with(|| Arc::new(Units::read(sections.info)));
            Rc::new(Space::new(sections, Arc::clone(units), DwarfFileType::Main))
        });
        let is_new = self.units.is_none();
        let units = self.units.get_or_insert_with(|| Arc::new(Units::read(file.sections.info)));
        let mut main = Space::new(file.sections, Arc::clone(units), DwarfFileType::Main);
        if let Some(sections) = file.supplementary {
            main.dwarf.set_sup(sections.dwarf(DwarfFileType::Main));
        }
        if is_new {
            self.index = Index::read(&main, &code, &mut work);
            self.stats.refused_units += main.units.refused + self.index.damaged;
        }
        let kept = std::mem::take(&mut self.kept_entries);
        let mut context = Context::new(Rc::new(main), supplementary, None, file.is_readable)
            .with_kept(kept)
            .for_addresses(unknown.len());
        let mut by_unit: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for address in unknown {
            match self.index.find(address) {
                Some(unit) => by_unit.entry(unit).or_default().push(address),
                None => self.records.add_nothing(address),
            }
        }
        let mut lost = Vec::new();
        let mut scratch = Scratch::default();
        for (unit, addresses) in by_unit {
            let to = (&mut scratch, &mut work);
            lost.extend(self.read_unit(&mut context, file, split, (unit, &addresses), to));
        }
        for address in lost {
            for unit in self.index.others(address, &mut work) {
                let to = (&mut scratch, &mut work);
                if self.read_unit(&mut context, file, split, (unit, &[address]), to).is_empty() {
                    break;
                }
            }
        }
        // Without enough work, descriptions are incomplete.
        if work.is_spent() {
            self.gave_up = true;
        } else {
            self.kept_entries = context.into_kept();
        }
    }

    /// Reads what a unit says of addresses. Gives those that it has no function for.
    fn read_unit<'a>(
        &mut self,
        context: &mut Context<'a>,
        file: &DebugFile<'a>,
        split: &mut dyn SplitSource,
        (unit, addresses): (u32, &[u64]),
        (scratch, work): (&mut Scratch, &mut Work),
    ) -> Vec<u64> {
        let Some(skeleton) = context.view(Place::Main, unit as usize, work) else {
            self.stats.refused_units += 1;
            return addresses.to_vec();
        };
        let known = self.known_units.remove(&unit).unwrap_or_default();
        self.kept -= known.ranges();
        let mut hits = Hits {
            known,
            code: Code::new(file.code),
            has_function: file.has_function,
            is_readable: file.is_readable,
            addresses,
        };
        let mut lost = None;
        let Self { records, texts, .. } = self;
        if let Some((name, id)) = skeleton.root.split {
            let wanted = SplitUnit {
                id,
                name: name.slice(),
                directory: skeleton.root.directory.map(|name| name.slice()).unwrap_or_default(),
                skeleton: file.sections,
            };
            split.with_unit(&wanted, &mut |sections| {
                let main = (Rc::clone(&context.main), context.supplementary.clone());
                lost = UnitReader { records, texts, work, scratch }
                    .read_split(main, &skeleton, sections, &mut hits);
            });
            self.stats.missing_split_units += u64::from(lost.is_none());
        }
        let Self { records, texts, .. } = self;
        let lost = lost.unwrap_or_else(|| {
            UnitReader { records, texts, work, scratch }.read(
                context,
                (Place::Main, &skeleton),
                &skeleton,
                &mut hits,
            )
        });
        let known = hits.known;
        if self.kept + known.ranges() <= MAX_KEPT_RANGES {
            self.kept += known.ranges();
            self.known_units.insert(unit, known);
        }
        lost
    }
}

/// The addresses sorted, each once.
fn sorted(addresses: &[u64]) -> Cow<'_, [u64]> {
    if addresses.is_sorted_by(|one, next| one < next) {
        return Cow::Borrowed(addresses);
    }
    let mut sorted = addresses.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    Cow::Owned(sorted)
}
