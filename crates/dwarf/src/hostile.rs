//! Debug information that was made to cost much: what a reader does stays within its bound of work.

use std::rc::Rc;
use std::sync::Arc;

use gimli::DwarfFileType;
use gimli::constants as dw;

use crate::bytes::put;
use crate::code::Code;
use crate::limits::Work;
use crate::names::{Context, Place};
use crate::records::Records;
use crate::sections::Sections;
use crate::texts::Texts;
use crate::unit::{Hits, KnownUnit, Scratch, UnitReader};
use crate::units::Units;
use crate::view::Space;

/// The file of one unit. Its function `f` has as many ranges as wanted, of 16 bytes each; so many calls of `g` are inlined into it, and each is in
/// all of the ranges.
struct File {
    info: Vec<u8>,
    abbrev: Vec<u8>,
    rnglists: Vec<u8>,
    /// An address in each range.
    addresses: Vec<u64>,
}

const CODE: u64 = 0x1000;

impl File {
    fn new(ranges: u64, calls: usize) -> Self {
        let mut abbrev = Vec::new();
        let mut shape =
            |code: u64, tag: gimli::DwTag, children: u8, specs: &[(gimli::DwAt, gimli::DwForm)]| {
                put(&mut abbrev, code);
                put(&mut abbrev, tag.0.into());
                abbrev.push(children);
                for (name, form) in specs {
                    put(&mut abbrev, name.0.into());
                    put(&mut abbrev, form.0.into());
                }
                abbrev.extend_from_slice(&[0, 0]);
            };
        let low_high = [(dw::DW_AT_low_pc, dw::DW_FORM_addr), (dw::DW_AT_high_pc, dw::DW_FORM_data8)];
        shape(1, dw::DW_TAG_compile_unit, 1, &low_high);
        shape(2, dw::DW_TAG_subprogram, 0, &[(dw::DW_AT_name, dw::DW_FORM_string)]);
        let ranges_of = (dw::DW_AT_ranges, dw::DW_FORM_sec_offset);
        shape(3, dw::DW_TAG_subprogram, 1, &[(dw::DW_AT_name, dw::DW_FORM_string), ranges_of]);
        let call = [&[(dw::DW_AT_abstract_origin, dw::DW_FORM_ref4)], &low_high[..]].concat();
        shape(4, dw::DW_TAG_inlined_subroutine, 0, &call);
        abbrev.push(0);

        let mut entries = Vec::new();
        put(&mut entries, 1);
        let bounds = |entries: &mut Vec<u8>| {
            entries.extend_from_slice(&CODE.to_le_bytes());
            entries.extend_from_slice(&(32 * ranges).to_le_bytes());
        };
        bounds(&mut entries);
        let origin = (HEADER + entries.len()) as u32;
        put(&mut entries, 2);
        entries.extend_from_slice(b"g\0");
        put(&mut entries, 3);
        entries.extend_from_slice(b"f\0\0\0\0\0");
        for _ in 0..calls {
            put(&mut entries, 4);
            entries.extend_from_slice(&origin.to_le_bytes());
            bounds(&mut entries);
        }
        entries.extend_from_slice(&[0, 0]);
        let mut info = ((HEADER - 4 + entries.len()) as u32).to_le_bytes().to_vec();
        info.extend_from_slice(&[5, 0, dw::DW_UT_compile.0, 8, 0, 0, 0, 0]);
        info.extend_from_slice(&entries);

        let mut rnglists = Vec::new();
        for number in 0..ranges {
            rnglists.push(dw::DW_RLE_offset_pair.0);
            put(&mut rnglists, 32 * number);
            put(&mut rnglists, 32 * number + 16);
        }
        rnglists.push(dw::DW_RLE_end_of_list.0);
        let addresses = (0..ranges).map(|number| CODE + 32 * number + 5).collect();
        Self { info, abbrev, rnglists, addresses }
    }

    fn sections(&self) -> Sections<'_> {
        Sections { info: &self.info, abbrev: &self.abbrev, rnglists: &self.rnglists, ..Sections::default() }
    }

    /// Makes records of all ranges. Gives the work that is left of an amount, and how many functions and calls are known at each address.
    fn read(&self, amount: u64) -> (u64, Vec<usize>) {
        let units = Arc::new(Units::read(&self.info));
        let space = Rc::new(Space::new(self.sections(), units, DwarfFileType::Main));
        let mut context = Context::new(space, None, None, |_| false);
        let mut work = Work::new(amount);
        let view = context.view(Place::Main, 0, &mut work).unwrap();
        let code = std::slice::from_ref(&(CODE..u64::MAX));
        let mut hits = Hits {
            known: KnownUnit::default(),
            code: Code::new(code),
            has_function: &|_| true,
            is_readable: |name| name.len() % 2 == 0,
            addresses: &self.addresses,
        };
        let (mut records, mut texts, mut scratch) =
            (Records::default(), Texts::default(), Scratch::default());
        let mut reader =
            UnitReader { records: &mut records, texts: &mut texts, work: &mut work, scratch: &mut scratch };
        assert_eq!(reader.read(&mut context, (Place::Main, &view), &view, &mut hits), [0; 0]);
        let mut found = Vec::new();
        for address in &self.addresses {
            let (start, _, place) = records.find(*address).unwrap();
            let each = |frames: &[crate::Frame], _| found.push(frames.len());
            records.answer((start, place), &[*address], &mut crate::records::Room::default(), each);
        }
        (work.left(), found)
    }
}

/// Bytes of a unit before its entries.
const HEADER: usize = 12;

#[test]
fn all_calls_of_a_function_are_work_in_each_of_its_ranges() {
    let (ranges, calls) = (300, 500);
    let file = File::new(ranges, calls);
    let amount = 10_000_000;
    let (left, found) = file.read(amount);
    // The calls are in one another nowhere, so that the last one has all addresses.
    assert_eq!(found, vec![2; ranges as usize]);
    let spent = amount - left;
    assert!(spent >= ranges * calls as u64, "{spent}");
    // Enough to read the entries, and for half of the ranges.
    let (left, found) = file.read(spent - ranges * calls as u64);
    assert_eq!(left, 0);
    let complete = found.iter().filter(|frames| **frames == 2).count();
    assert!((ranges as usize / 4..ranges as usize).contains(&complete), "{complete}");
    assert!(found.iter().all(|frames| *frames <= 2));
}

#[test]
fn entries_of_range_lists_that_are_no_ranges_are_work() {
    // Empty pairs, which each of the calls has to go through.
    let mut file = File::new(1, 0);
    let ranges = std::mem::take(&mut file.rnglists);
    for _ in 0..10_000 {
        file.rnglists.extend_from_slice(&[dw::DW_RLE_offset_pair.0, 0, 0]);
    }
    let (pairs, amount) = (file.rnglists.len() as u64 / 3, 10_000_000);
    file.rnglists.extend_from_slice(&ranges);
    let (left, found) = file.read(amount);
    assert_eq!(found, [1]);
    assert!(amount - left >= 8 * pairs, "{}", amount - left);
    // The same behind an entry that is none of the usual pairs.
    let base = [&[dw::DW_RLE_base_address.0][..], &CODE.to_le_bytes()].concat();
    file.rnglists.splice(..0, base);
    let (left, found) = file.read(amount);
    assert_eq!(found, [1]);
    assert!(amount - left >= 8 * pairs, "{}", amount - left);
}
