//! Decompresses `.xz` files that are stored in sections, within bounds of memory and work.
//!
//! A damaged file, a wrong checksum or a size beyond the bounds gives nothing.

use std::io::{self, Read};

use lzma_rust2::XzReader;

/// Memory of the decoder in KiB: the dictionary of `xz -9` (64 MiB), and what the decoder needs beside it.
const MAX_MEMORY_KIB: u32 = (64 << 10) + 256;
/// Reads from the compressed file. The decoder reads a block or a chunk of it with a handful of calls, and a chunk
/// holds up to 64 KiB: this is enough for more than 100 MiB. Without the bound, a file of empty blocks would make the
/// decoder allocate a dictionary for every 16 bytes of it.
const MAX_READS: u32 = 1 << 14;

/// The decompressed content. `None` if the file is damaged or its content is longer than `limit`.
pub(crate) fn decompress(file: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let reader = XzReader::new_mem_limit(Input { rest: file, reads: 0 }, false, MAX_MEMORY_KIB);
    reader.take(limit as u64 + 1).read_to_end(&mut out).ok()?;
    (out.len() <= limit).then_some(out)
}

/// The compressed file, which can be read a limited number of times.
struct Input<'a> {
    rest: &'a [u8],
    reads: u32,
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reads += 1;
        if self.reads > MAX_READS {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.rest.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use proptest::prelude::*;

    use super::*;

    /// What `xz` makes of the content; none if it is not installed.
    fn xz(content: &[u8], options: &[&str]) -> Option<Vec<u8>> {
        let mut command = Command::new(testkit::needed("xz")?);
        let mut child = command.args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
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
    fn the_number_of_reads_suffices_for_large_files() {
        // Neither compressible nor repeating.
        let mut state = 1u64;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 32) as u32
        });
        let content: Vec<u8> = noise.take(1 << 20).flat_map(u32::to_le_bytes).collect();
        let Some(packed) = xz(&content, &["-0"]) else { return };
        let mut input = Input { rest: &packed, reads: 0 };
        XzReader::new(&mut input, false).read_to_end(&mut Vec::new()).unwrap();
        // 4 MiB; the largest content that is asked for has 32.
        assert!(input.reads < MAX_READS / 8, "{} reads", input.reads);
    }

    #[test]
    fn a_storm_of_small_blocks_ends_early() {
        let Some(empty) = xz(b"x", &["--check=none"]) else { return };
        // The stream: its header (12 bytes), one block, the index (8) and the footer (12).
        let (stream, block) = (&empty[..12], &empty[12..empty.len() - 8 - 12]);
        let blocks = [stream, &block.repeat(100_000)].concat();
        let mut input = Input { rest: &blocks, reads: 0 };
        let mut reader = XzReader::new_mem_limit(&mut input, false, MAX_MEMORY_KIB);
        let error = reader.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let left = input.rest.len() / block.len();
        assert!((95_000..99_000).contains(&left), "{left} of 100,000 blocks are left");
    }

    #[test]
    fn a_dictionary_beyond_the_limit_is_refused() {
        let Some(packed) = xz(b"content content content", &["--lzma2=dict=64MiB"]) else { return };
        assert!(decompress(&packed, 100).is_some());
        let packed = xz(b"content content content", &["--lzma2=dict=128MiB"]).unwrap();
        assert_eq!(decompress(&packed, 100), None);
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let Some(bomb) = xz(&vec![0; 100 << 20], &[]) else { return };
        assert!(bomb.len() < 1 << 20);
        assert_eq!(decompress(&bomb, 1 << 20), None);
    }

    #[test]
    fn other_files_are_refused() {
        assert_eq!(decompress(b"", 100), None);
        assert_eq!(decompress(b"\x7fELF00000000000000000000", 100), None);
    }

    #[test]
    fn filters_for_code_are_understood() {
        let Some(filtered) = xz(b"content content content", &["--x86", "--lzma2"]) else { return };
        assert_eq!(decompress(&filtered, 100).as_deref(), Some(&b"content content content"[..]));
        assert_eq!(decompress(&filtered, 22), None, "beyond the limit");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn damage_does_no_harm(damage in proptest::collection::vec((0usize..400, any::<u8>()), 1..8), len in 0usize..400) {
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
