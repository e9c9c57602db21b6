//! Any bytes as line program of one unit: no panic, no more memory than its bounds, and no line outside of the unit.
#![no_main]

use dwarf::{DebugFile, NoSplitUnits, Reader, Sections};

#[path = "../allocations.rs"]
mod allocations;

/// One unit with `DW_AT_stmt_list`, `DW_AT_low_pc` and `DW_AT_high_pc`.
const ABBREV: &[u8] = &[1, 0x11, 0, 0x10, 0x17, 0x11, 0x01, 0x12, 0x06, 0, 0, 0];
/// Its header (version 4), and its entry: lines at 0, code from 0x1000 to 0x2000.
const INFO: &[u8] =
    &[24, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 1, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0];

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let sections = Sections { abbrev: ABBREV, info: INFO, line: bytes, ..Sections::default() };
    let code = [0x1000..0x2000];
    let addresses: Vec<u64> = (0..256).map(|at| 0xf80 + 17 * at).collect();
    let file = DebugFile { sections, supplementary: None, code: &code, has_function: &|_| false, is_readable: |name| name.len() % 2 == 0 };
    let mut reader = Reader::new();
    let found = allocations::bounded(256 << 20, || reader.find(&file, &mut NoSplitUnits, &addresses));
    for (address, found) in addresses.iter().zip(found) {
        assert!(found.is_none() || code[0].contains(address));
    }
});
