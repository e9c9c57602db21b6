//! Any bytes as sections of debug information: looking addresses up neither panics nor takes more memory than its bounds, and a second look-up
//! answers from records what the first one did.
//!
//! The input is the lengths of the sections (2 bytes each, little-endian) in the order of `Sections::NAMES`, then their bytes.
#![no_main]

use dwarf::{DebugFile, NoSplitUnits, Reader, Sections};

#[path = "../allocations.rs"]
mod allocations;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (lengths, mut rest) = bytes.split_at(bytes.len().min(2 * Sections::NAMES.len()));
    let mut lengths = lengths.chunks_exact(2).map(|pair| usize::from(u16::from_le_bytes([pair[0], pair[1]])));
    let sections = Sections::load(|_| {
        let (section, behind) = rest.split_at(lengths.next().unwrap_or(0).min(rest.len()));
        rest = behind;
        section
    });
    let whole = [0..u64::MAX];
    let addresses: Vec<u64> = (0..64).chain((0..64).map(|at| 0x1000 + 16 * at)).collect();
    let file = DebugFile { sections, supplementary: Some(sections), code: &whole, has_function: &|_| true, is_readable: |name| name.len() % 2 == 0 };
    let mut reader = Reader::new();
    let first = allocations::bounded(1 << 30, || reader.find(&file, &mut NoSplitUnits, &addresses));
    assert_eq!(first.len(), addresses.len());
    let second = reader.find(&file, &mut NoSplitUnits, &addresses);
    for (first, second) in first.iter().zip(&second).filter(|(first, _)| first.is_some()) {
        assert!(second.is_some(), "{first:?}");
        for frame in first.iter().flat_map(|found| &found.frames) {
            let _ = frame.name.map(|name| reader.text(name).len());
        }
    }
});
