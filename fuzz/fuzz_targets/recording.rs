//! Any bytes as recording: no panic, and a recording that is read can be written and read again as the same.
#![no_main]

use recording::SymbolizedRecording;
use recording::file::{read, read_symbolized, write_symbolized};

#[path = "../sections.rs"]
mod sections;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check(&sections::file(bytes));
});

fn check(bytes: &[u8]) {
    let Ok(first) = read_symbolized(bytes) else { return };
    assert_eq!(read(bytes).expect("it is also read without names"), first.recording);
    let bytes = written(&first);
    let second = read_symbolized(&bytes[..]).expect("what was written is read");
    assert_eq!(first.recording, second.recording);
    assert_eq!(first.ledgers, second.ledgers);
    assert_eq!(first.names.outcome, second.names.outcome);
    assert_eq!(first.names.len(), second.names.len());
    for frame in first.names.frames() {
        assert!(first.names.of(frame).eq(second.names.of(frame)));
    }
    assert_eq!(bytes, written(&second));
}

fn written(symbolized: &SymbolizedRecording) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_symbolized(symbolized, &mut bytes).expect("what was read is written");
    bytes
}
