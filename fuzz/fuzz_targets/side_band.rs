//! Any bytes as record of the side band: no panic, no path longer than the record.
#![no_main]

use events::{Record, parse_record};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some((_, Record::Mmap(mmap)))) = parse_record(bytes) {
        assert!(mmap.path.len() <= bytes.len());
    }
});
