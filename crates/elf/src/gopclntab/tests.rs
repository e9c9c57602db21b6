//! Tables made by hand. Real programs are read by the tests of the crates `unwind` and `symbols`.

use super::*;
use crate::layout::Layout;

use proptest::prelude::*;

/// A table of version 1.20 with two functions, `main.first` (0..16) and `main.second` (16..48).
fn table() -> Vec<u8> {
    let names = b"main.first\0main.second\0main.inlined\0";
    let (names_at, units_at, files_at) = (72, 128, 136);
    let (values_at, functab_at) = (152, 168);
    let mut bytes = vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
    for word in [2u64, 1, 0, names_at, units_at, files_at, values_at, functab_at] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(names);
    bytes.resize(128, 0);
    bytes.extend([u32::MAX.to_le_bytes(), 0u32.to_le_bytes()].concat());
    bytes.extend(b"/src/main.go\0");
    bytes.resize(152, 0);
    // At 1: value 0 for 4, 8 for 44. At 6: value 1 for 48. At 9: value -1 for 8, 0 for 40.
    bytes.extend([0xff, 2, 4, 16, 44, 0, 4, 48, 0, 0, 8, 2, 40, 0]);
    bytes.resize(168, 0);
    let descriptions = [24u32, 24 + 44];
    for (start, description) in [(0u32, descriptions[0]), (16, descriptions[1]), (48, 0)] {
        bytes.extend(start.to_le_bytes());
        bytes.extend(description.to_le_bytes());
    }
    for (start, name, flags, pcdata) in [(0u32, 0u32, 2u8, 0u32), (16, 11, 0, 3)] {
        // name, args, deferreturn, pcsp, pcfile, pcln, npcdata, unit, start line. A reader that goes beyond the arrays of
        // the first function takes the args of the second for a table.
        for word in [start, name, 9, 0, 1, 6, 6, pcdata, 0, 7] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend([0, flags, 0, if pcdata > 0 { 4 } else { 0 }]);
    }
    for word in [0u32, 0, 9, u32::MAX, u32::MAX, u32::MAX, 0x40] {
        bytes.extend(word.to_le_bytes());
    }
    bytes
}

#[test]
fn functions_are_found_by_position() {
    let bytes = table();
    let table = PcLnTab::parse(&bytes, 0x1000).unwrap();
    assert_eq!((table.version, table.function_count, table.names_address()), (Version::Go120, 2, 0x1048));
    let at = |position| table.function_at(position).map(|function| (function.start, function.end));
    assert_eq!(
        [at(0), at(15), at(16), at(47)],
        [Some((0, 16)), Some((0, 16)), Some((16, 48)), Some((16, 48))]
    );
    assert_eq!(at(48), None);
    let function = table.function_at(20).unwrap();
    assert_eq!(table.name(&function, 100), Some(&b"main.second"[..]));
    assert_eq!(table.name(&function, 11), None, "longer than what is asked for");
    assert_eq!((function.start_line, function.writes_sp), (7, false));
    assert!(table.function(0).unwrap().writes_sp);
    assert!(table.function(2).is_none());
}

#[test]
fn values_are_those_of_an_instruction() {
    let bytes = table();
    let table = PcLnTab::parse(&bytes, 0).unwrap();
    let function = table.function(1).unwrap();
    let steps: Vec<_> = table.stack_sizes(&function).unwrap().map(|step| step.unwrap().value).collect();
    assert_eq!(steps, [0, 8]);
    assert_eq!(table.position(&function, 3), (Some(&b"/src/main.go"[..]), Some(1)));
    assert_eq!(table.position(&function, 48), (None, None));
    assert_eq!(table.inlined_call_number(&function, 0), None);
    assert_eq!(table.inlined_call_number(&function, 8), Some(0));
    assert_eq!(table.inlined_call_number(&table.function(0).unwrap(), 8), None);
    assert_eq!(table.inlined_calls(&function), Some(0x40));
    let calls = [[0u32, 23, 5, 9]].map(|words| words.map(u32::to_le_bytes).concat()).concat();
    let call = table.inlined_call(&calls, 0).unwrap();
    assert_eq!((call.name, call.parent_offset, call.start_line), (&b"main.inlined"[..], 5, 9));
    assert!(table.inlined_call(&calls, 1).is_none() && table.inlined_call(&calls, usize::MAX).is_none());
}

#[test]
fn other_bytes_are_no_table() {
    let bytes = table();
    for (at, byte) in [(0, 0xf2), (4, 1), (6, 3), (7, 4), (8, 0), (15, 1), (39, 1), (71, 1)] {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        assert!(PcLnTab::parse(&bytes, 0).is_none(), "{at}");
    }
    assert!(PcLnTab::parse(&bytes[..71], 0).is_none());
    assert!(find(&Layout::parse(&std::fs::read("/bin/sh").unwrap()).unwrap(), &[], &|| {}).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn damage_does_no_harm(damage in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..12)) {
        let mut bytes = table();
        for (at, byte) in damage {
            let len = bytes.len();
            bytes[at % len] = byte;
        }
        let Some(table) = PcLnTab::parse(&bytes, 0) else { return Ok(()) };
        for function in (0..table.function_count.min(100)).filter_map(|number| table.function(number)) {
            let _ = (table.name(&function, 100), table.inlined_calls(&function));
            for offset in [0, 5, u64::MAX] {
                let _ = (table.position(&function, offset), table.inlined_call_number(&function, offset));
            }
            prop_assert!(table.stack_sizes(&function).is_none_or(|steps| steps.count() <= bytes.len()));
        }
        let _ = table.function_at(20);
    }
}
