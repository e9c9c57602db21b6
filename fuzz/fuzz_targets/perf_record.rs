//! Any bytes as attribute of an event and a record of it: no panic, and what is an attribute is encoded and read back.
#![no_main]

use perf_abi::{Layout, Record};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some(attr) = perf_abi::decode(bytes) else { return };
    let Some(record) = bytes.get(perf_abi::SIZE..) else { return };
    let layout = Layout::of(&attr);
    let time = layout.time(record);
    let _ = Layout::identifier(record);
    if let Ok(parsed) = Record::parse(record, &layout) {
        assert!(parsed.id.time.is_none() || parsed.id.time == time);
    }
    if let Ok(encoded) = perf_abi::encode(&attr) {
        assert_eq!(perf_abi::decode(&encoded), Some(attr));
        for size in perf_abi::KNOWN_SIZES {
            let _ = perf_abi::shorten(&encoded, size);
        }
    }
});
