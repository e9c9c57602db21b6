//! The own tables of abbreviations beside gimli's `EntriesRaw`: the same entries, and the time that both take.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use gimli::constants as dw;
use gimli::{DebugAbbrev, DebugAbbrevOffset, EndianSlice, EntriesRaw, LittleEndian, UnitOffset};
use object::{Object as _, ObjectSection as _};

use crate::abbreviations::{Abbreviations, Kind};
use crate::bytes::uleb;
use crate::units::{UnitHead, Units};

/// The sections of a file that entries need.
struct File {
    info: Vec<u8>,
    abbrev: Vec<u8>,
}

impl File {
    fn read(path: &str) -> Self {
        let bytes = std::fs::read(path).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let section = |name| {
            let section = file.section_by_name(name);
            section.map(|section| section.uncompressed_data().unwrap().into_owned()).unwrap_or_default()
        };
        Self { info: section(".debug_info"), abbrev: section(".debug_abbrev") }
    }

    fn units(&self) -> Units {
        Units::read(&self.info)
    }

    /// Goes over the entries of a unit by the own tables. `skips`: without those inside of entries that tell where their sibling is and are neither a
    /// scope nor a unit, as the search for functions does. `each` is given the position of each entry that is read, and whether it is a function.
    fn ours(&self, head: &UnitHead, skips: bool, mut each: impl FnMut(usize, bool)) -> Option<()> {
        let abbreviations = Abbreviations::read(&self.abbrev, head.abbreviations, head.encoding);
        let data = self.info.get(..head.end)?;
        let mut at = head.entries;
        while at < data.len() {
            let entry = at;
            let code = uleb(data, &mut at)?;
            if code == 0 {
                continue;
            }
            let shape = abbreviations.get(code)?;
            each(entry, shape.kind == Kind::Function);
            let attributes = at;
            abbreviations.skip(shape, data, &mut at, head.encoding)?;
            if skips
                && shape.has_children
                && !shape.kind.is_scope()
                && let Some(sibling) = Abbreviations::sibling(shape, data, attributes)
                && head.start + sibling >= at
            {
                at = head.start + sibling;
            }
        }
        Some(())
    }

    /// The same by gimli.
    fn gimli(&self, head: &UnitHead, skips: bool, mut each: impl FnMut(usize, bool)) -> Option<()> {
        let abbrev = DebugAbbrev::new(&self.abbrev, LittleEndian);
        let abbreviations = abbrev.abbreviations(DebugAbbrevOffset(head.abbreviations)).ok()?;
        let data = self.info.get(..head.end)?;
        let from = |at: usize| {
            let bytes = EndianSlice::new(&data[at..], LittleEndian);
            EntriesRaw::new(bytes, head.encoding, &abbreviations, UnitOffset(at))
        };
        let mut entries = from(head.entries);
        while !entries.is_empty() {
            let entry = entries.next_offset().0;
            let Some(abbreviation) = entries.read_abbreviation().ok()? else { continue };
            let specs = abbreviation.attributes();
            let is_function = abbreviation.tag() == dw::DW_TAG_subprogram
                && specs.iter().any(|spec| matches!(spec.name(), dw::DW_AT_low_pc | dw::DW_AT_ranges));
            each(entry, is_function);
            let is_scope = matches!(
                abbreviation.tag(),
                dw::DW_TAG_namespace
                    | dw::DW_TAG_module
                    | dw::DW_TAG_lexical_block
                    | dw::DW_TAG_try_block
                    | dw::DW_TAG_catch_block
                    | dw::DW_TAG_with_stmt
                    | dw::DW_TAG_common_block
                    | dw::DW_TAG_compile_unit
                    | dw::DW_TAG_partial_unit
                    | dw::DW_TAG_skeleton_unit
            );
            let sibling_at = specs.iter().position(|spec| spec.name() == dw::DW_AT_sibling);
            match sibling_at.filter(|_| skips && abbreviation.has_children() && !is_scope) {
                Some(sibling_at) => {
                    entries.skip_attributes(&specs[..sibling_at]).ok()?;
                    let value = entries.read_attribute_inline(specs[sibling_at]).ok()?.value();
                    match value {
                        gimli::AttributeValue::UnitRef(offset) => entries = from(head.start + offset.0),
                        _ => entries.skip_attributes(&specs[sibling_at + 1..]).ok()?,
                    }
                }
                None => entries.skip_attributes(specs).ok()?,
            }
        }
        Some(())
    }
}

fn found(walk: impl FnOnce(&mut dyn FnMut(usize, bool)) -> Option<()>) -> (Option<()>, Vec<(usize, bool)>) {
    let mut found = Vec::new();
    let ended = walk(&mut |entry, is_function| found.push((entry, is_function)));
    (ended, found)
}

#[test]
fn both_find_the_same_entries() {
    let file = File::read("/proc/self/exe");
    let (mut entries, mut functions) = (0, 0);
    for head in &file.units().heads {
        let ours = found(|each| file.ours(head, false, each));
        let gimli = found(|each| file.gimli(head, false, each));
        assert!(ours == gimli && ours.0.is_some(), "unit at {:#x}", head.start);
        entries += ours.1.len();
        functions += ours.1.iter().filter(|(_, is_function)| *is_function).count();
    }
    assert!(entries > 10_000 && functions > 1000, "{entries} entries, {functions} functions");
}

#[test]
#[ignore = "measures; needs a release build and a large file"]
fn time_of_both() {
    let path = std::env::var_os("DWARF_LARGE_FILE").map_or_else(|| "/proc/self/exe".into(), PathBuf::from);
    let file = File::read(path.to_str().unwrap());
    let units = file.units();
    let mut least = [[Duration::MAX; 2]; 2];
    let mut entries = [[0; 2]; 2];
    for _ in 0..5 {
        for skips in [false, true] {
            let mut counts = [Counts::default(); 2];
            let walks = [
                &|head: &UnitHead, counts: &mut Counts| file.ours(head, skips, |_, is| counts.add(is)),
                &|head: &UnitHead, counts: &mut Counts| file.gimli(head, skips, |_, is| counts.add(is)),
            ] as [&dyn Fn(&UnitHead, &mut Counts) -> Option<()>; 2];
            for (number, walk) in walks.iter().enumerate() {
                let started = Instant::now();
                for head in &units.heads {
                    black_box(walk(head, &mut counts[number]));
                }
                let least = &mut least[usize::from(skips)][number];
                *least = started.elapsed().min(*least);
            }
            assert!(skips || counts[0] == counts[1], "{counts:?}");
            entries[usize::from(skips)] = counts.map(|counts| counts.entries);
        }
    }
    for (number, what) in ["all entries", "without those that siblings skip"].iter().enumerate() {
        let ([ours, gimli], entries) = (least[number], entries[number]);
        let ratio = gimli.as_secs_f64() / ours.as_secs_f64();
        eprintln!("{what} {entries:?}: own tables {ours:?}, EntriesRaw {gimli:?}, {ratio:.2} times as long");
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    entries: u64,
    functions: u64,
}

impl Counts {
    fn add(&mut self, is_function: bool) {
        self.entries += 1;
        self.functions += u64::from(is_function);
    }
}
