//! Any bytes as split debug information, in a file of its own and in a package: no panic, bounded memory, and a second look-up answers what the
//! first one did.
//!
//! The input is the lengths of the sections (2 bytes each, little-endian), then their bytes: those of the file with the skeletons in the order of
//! `Sections::NAMES`, those of the split unit, and the index of the package.
#![no_main]

use dwarf::{DebugFile, Reader, Sections, SplitSource, SplitUnit};

#[path = "../allocations.rs"]
mod allocations;

/// Sections of split units for every name: as they are for names of an even length, else as a package.
struct Split<'a> {
    sections: Sections<'a>,
    index: &'a [u8],
}

impl SplitSource for Split<'_> {
    fn with_unit(&mut self, unit: &SplitUnit<'_>, read: &mut dyn FnMut(Sections<'_>)) {
        assert!(unit.skeleton.info.len() <= 1 << 16);
        if unit.name.len() % 2 == 0 {
            read(self.sections);
        } else if let Some(part) = self.sections.of_package(self.index, unit.id) {
            read(part);
        }
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let count = 2 * Sections::NAMES.len() + 1;
    let (lengths, mut rest) = bytes.split_at(bytes.len().min(2 * count));
    let mut lengths = lengths.chunks_exact(2).map(|pair| usize::from(u16::from_le_bytes([pair[0], pair[1]])));
    let mut next = |_| {
        let (section, behind) = rest.split_at(lengths.next().unwrap_or(0).min(rest.len()));
        rest = behind;
        section
    };
    let (main, sections) = (Sections::load(&mut next), Sections::load(&mut next));
    let mut split = Split { sections, index: next("") };
    let whole = [0..u64::MAX];
    let addresses: Vec<u64> = (0..64).chain((0..64).map(|at| 0x1000 + 16 * at)).collect();
    let file = DebugFile { sections: main, supplementary: None, code: &whole, has_function: &|_| true, is_readable: |name| name.len() % 2 == 0 };
    let mut reader = Reader::new();
    let first = allocations::bounded(1 << 30, || reader.find(&file, &mut split, &addresses));
    assert_eq!(first.len(), addresses.len());
    let second = reader.find(&file, &mut split, &addresses);
    for (first, second) in first.iter().zip(&second).filter(|(first, _)| first.is_some()) {
        assert!(second.is_some(), "{first:?}");
        for frame in first.iter().flat_map(|found| &found.frames) {
            let _ = frame.name.map(|name| reader.text(name).len());
        }
    }
});
