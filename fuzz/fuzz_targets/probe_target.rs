//! Any bytes as ELF file: looking for places of probes, and for the ends of functions, neither panics nor hangs, and places are inside of the file.
#![no_main]

use std::path::Path;

use probes::{Binary, CallReturns, Target};

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    let Ok(binary) = Binary::of_bytes(Path::new("file"), file.to_vec()) else { return };
    let len = file.len() as u64;
    for text in ["main", "_start+4", "a::b", "0x40"] {
        let Ok(target) = Target::parse(text) else { continue };
        if let Ok(location) = binary.locate(&target) {
            let place = binary.place(&location);
            assert!(location.offset < len && place.offset < len);
            if let Ok(exits) = binary.exits(&target, &location) {
                assert!(exits.iter().all(|exit| exit.offset < len));
            }
            for inner in [true, false] {
                if let Ok(CallReturns::At(offsets)) = binary.call_returns(&location, &|_| inner) {
                    assert!(offsets.iter().all(|offset| *offset < len));
                }
            }
            for text in ["n", "argv->a.b", "p->next->x:u32"] {
                let _any_answer = binary.parameter(&target, &location, &place, text);
            }
        }
    }
    for probe in binary.usdt_probes() {
        assert!(probe.sites.iter().all(|site| site.offset < len));
    }
});
