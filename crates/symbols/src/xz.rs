//! The `.xz` files that linkers' tools put into sections, decompressed within bounds.
//!
//! In: blocks with the LZMA2 filter alone, which is what `xz` makes of symbols. Out: nothing on any doubt about the
//! structure. The checksums at the ends of blocks are not compared: what comes out is read without trust anyway.

use std::io::Read;

use lzma_rust2::Lzma2Reader;

use crate::elf::u32_of;

const MAGIC: &[u8] = b"\xfd7zXZ\0";
const LZMA2: u64 = 0x21;
/// More blocks than this have no reason: one holds as much as there is.
const MAX_BLOCKS: usize = 1024;
/// Bytes of a check by its number in the stream's flags.
const CHECK_SIZES: [usize; 16] = [0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64];

/// The content. `None` if it is damaged, needs another filter, or is longer than `limit`.
pub(crate) fn decompress(file: &[u8], limit: usize) -> Option<Vec<u8>> {
    let check = match file.get(..12)? {
        [start @ .., 0, check, _, _, _, _] if start == MAGIC => *CHECK_SIZES.get(usize::from(*check))?,
        _ => return None,
    };
    let mut out = Vec::new();
    let mut at = 12;
    for _ in 0..MAX_BLOCKS {
        // A size of zero is no block but the index.
        if *file.get(at)? == 0 {
            return Some(out);
        }
        let header_len = (usize::from(file[at]) + 1) * 4;
        let dictionary = dictionary_size(file.get(at..at + header_len)?)?;
        let body = file.get(at + header_len..)?;
        // No match reaches behind the limit.
        let dictionary = dictionary.min(u32::try_from(limit).ok()?);
        let mut reader = Lzma2Reader::new(body, dictionary, None);
        let left = (limit - out.len()) as u64;
        reader.by_ref().take(left + 1).read_to_end(&mut out).ok()?;
        if out.len() > limit {
            return None;
        }
        let packed = body.len() - reader.into_inner().len();
        at += header_len + packed.next_multiple_of(4) + check;
    }
    None
}

/// The size of the dictionary, if the block has no other filter than LZMA2.
fn dictionary_size(header: &[u8]) -> Option<u32> {
    let (content, sum) = header.split_at_checked(header.len().checked_sub(4)?)?;
    let mut crc = flate2::Crc::new();
    crc.update(content);
    let flags = *content.get(1)?;
    if crc.sum() != u32_of(sum) || flags & 0x3f != 0 {
        return None;
    }
    let mut rest = content.get(2..)?;
    let sizes = (flags >> 6 & 1) + (flags >> 7);
    for _ in 0..sizes {
        number(&mut rest)?;
    }
    if number(&mut rest)? != LZMA2 || number(&mut rest)? != 1 {
        return None;
    }
    let bits = u32::from(*rest.first()?);
    match bits {
        0..40 => Some((2 | (bits & 1)) << (bits / 2 + 11)),
        40 => Some(u32::MAX),
        _ => None,
    }
}

/// A number of up to nine bytes of seven bits.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use proptest::prelude::*;

    use super::*;

    /// What the tool makes of it; none if it is not installed.
    fn xz(content: &[u8], options: &[&str]) -> Option<Vec<u8>> {
        let started = Command::new("xz").args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut child) = started else {
            eprintln!("skipped: xz is not installed");
            return None;
        };
        let (mut stdin, content) = (child.stdin.take().unwrap(), content.to_vec());
        let writer = std::thread::spawn(move || stdin.write_all(&content).unwrap());
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Some(output.stdout)
    }

    #[test]
    fn reads_what_the_tool_writes() {
        let content = std::fs::read("/proc/self/exe").unwrap();
        let content = &content[..content.len().min(1 << 20)];
        let ways: [&[&str]; 5] =
            [&[], &["-9e"], &["-0", "--check=none"], &["--check=sha256"], &["--block-size=100000"]];
        for options in ways {
            let Some(packed) = xz(content, options) else { return };
            assert!(packed.len() < content.len());
            assert!(decompress(&packed, content.len()).as_deref() == Some(content), "{options:?}");
            assert_eq!(decompress(&packed, content.len() - 1), None, "{options:?}: beyond the limit");
        }
        assert_eq!(decompress(&xz(b"", &[]).unwrap(), 10), Some(Vec::new()));
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let Some(bomb) = xz(&vec![0; 100 << 20], &[]) else { return };
        assert!(bomb.len() < 1 << 20);
        assert_eq!(decompress(&bomb, 1 << 20), None);
    }

    #[test]
    fn other_filters_and_other_files_are_refused() {
        assert_eq!(decompress(b"", 100), None);
        assert_eq!(decompress(b"\x7fELF00000000000000000000", 100), None);
        let Some(filtered) = xz(b"content content content", &["--x86", "--lzma2"]) else { return };
        assert_eq!(decompress(&filtered, 100), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn damage_is_stood(damage in proptest::collection::vec((0usize..400, any::<u8>()), 1..8), len in 0usize..400) {
            static PACKED: std::sync::OnceLock<Option<Vec<u8>>> = std::sync::OnceLock::new();
            let content: Vec<u8> = (0..400u32).flat_map(|n| (n * n).to_le_bytes()).collect();
            if let Some(packed) = PACKED.get_or_init(|| xz(&content, &["-0"])) {
                let mut packed = packed.clone();
                for (at, byte) in damage {
                    let at = at % packed.len();
                    packed[at] = byte;
                }
                packed.truncate(packed.len() - len % 40);
                if let Some(out) = decompress(&packed, 1 << 16) {
                    prop_assert!(out.len() <= 1 << 16);
                }
            }
        }
    }
}
