//! Recordings from bytes of a fuzzer.
//!
//! Bytes that do not begin as a file are taken for contents of sections, each after its kind (1 byte) and its length (2 bytes,
//! little-endian), and put into a file with right checksums.

use recording::file::{MAGIC, MAJOR, MINOR};

/// Bytes that begin as a file, or else a file with sections of these contents.
pub fn file(mut contents: &[u8]) -> Vec<u8> {
    if contents.starts_with(&MAGIC[..1]) {
        return contents.to_vec();
    }
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
