//! Any bytes as recording: no panic, and a recording that is read can be written and read again as the same.
//!
//! Bytes that do not begin as a file are taken for contents of sections, each after its kind (1 byte) and its length (2 bytes,
//! little-endian), and put into a file with right checksums.
#![no_main]

use recording::SymbolizedRecording;
use recording::file::{MAGIC, MAJOR, MINOR, read, read_symbolized, write_symbolized};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if bytes.starts_with(&MAGIC[..1]) { check(bytes) } else { check(&file(bytes)) }
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

/// A file with sections of these contents.
fn file(mut contents: &[u8]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    file.extend(MAJOR.to_le_bytes());
    file.extend(MINOR.to_le_bytes());
    file.extend(crc32fast::hash(&file).to_le_bytes());
    let (mut sections, mut checksums) = (0, crc32fast::Hasher::new());
    while let [kind, low, high, rest @ ..] = contents {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (content, rest) = rest.split_at(length);
        checksums.update(&section(&mut file, u16::from(*kind), content).to_le_bytes());
        sections += 1;
        contents = rest;
    }
    let mut end = Vec::new();
    for mut number in [sections, u64::from(checksums.finalize())] {
        while number >= 0x80 {
            end.push(number as u8 | 0x80);
            number >>= 7;
        }
        end.push(number as u8);
    }
    section(&mut file, 0xffff, &end);
    file
}

/// Appends a section that is not deflated. Returns its checksum.
fn section(file: &mut Vec<u8>, kind: u16, content: &[u8]) -> u32 {
    let length = (content.len() as u32).to_le_bytes();
    let header = [&kind.to_le_bytes()[..], &[0, 0], &length, &length].concat();
    let checksum = crc32fast::hash(&[&header, content].concat());
    file.extend(header);
    file.extend(checksum.to_le_bytes());
    file.extend(content);
    checksum
}
