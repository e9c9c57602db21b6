//! Any recording to its report, its profiles and each format: no panic, whatever refers to what in it.
#![no_main]

use formats::EncodeOptions;
use formats::registry::ENCODERS;
use recording::file::read_symbolized;
use report::{EndedBy, Report};

#[path = "../sections.rs"]
mod sections;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(symbolized) = read_symbolized(&sections::file(bytes)[..]) else { return };
    let report = Report::of(&symbolized, EndedBy::TargetsExited);
    for ledger in &report.ledgers {
        let profile = report::profile(&symbolized, ledger.mode, &ledger.entries());
        for encoder in ENCODERS {
            // A profile without values cannot be shown in all formats.
            let _ = encoder.encode(&profile, &EncodeOptions::default(), &mut Vec::new());
        }
    }
});
