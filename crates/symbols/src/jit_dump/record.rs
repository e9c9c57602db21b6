//! The header and the records of a jitdump, from their bytes.
//!
//! A record begins with its kind, its length and its time; the byte order is that of the machine. Records that are not needed are
//! skipped by their length: unwind information, the end of the file, and kinds that are not known.

use super::error::JitDumpError;

/// `JiTD`, in the byte order of the machine.
const MAGIC: u32 = 0x4A69_5444;
const VERSION: u32 = 1;
/// Bytes of the header that are used.
pub(super) const HEADER: usize = 40;
/// Bytes in front of each record.
pub(super) const PREFIX: usize = 16;
/// Bytes of a load between its prefix and its name.
pub(super) const LOAD: usize = 40;
/// Bytes of a move behind its prefix.
pub(super) const MOVE: usize = 48;
/// Bytes in front of the lines of a piece of code.
const LINES: usize = 16;
/// Bytes of a line in front of the name of its file.
const LINE: usize = 16;
/// Times are those of a processor's counter, not of a clock.
const ARCH_TIMESTAMP: u64 = 1;
/// In the place of a file's name: the file of the line before.
const SAME_FILE: &[u8] = b"\xff";

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Where the first record begins.
    pub(super) length: u64,
    /// Whether times are `CLOCK_MONOTONIC` in ns, so that they can be compared with others.
    pub(super) has_clock_times: bool,
}

/// Kinds of records that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Load,
    Move,
    Lines,
    Other,
}

/// The beginning of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefix {
    pub(super) kind: Kind,
    /// Length of the record, this prefix included.
    pub(super) length: u64,
    pub(super) time_ns: u64,
}

/// A piece of code was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) start: u64,
    pub(super) size: u64,
}

/// A piece of code was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) size: u64,
}

/// From this address on, code is of this line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) address: u64,
    pub(super) line: u32,
    pub(super) column: u32,
    pub(super) file: &'a [u8],
}

/// Whether a file that begins with these bytes is a jitdump, of either byte order.
pub(super) fn has_magic(begin: [u8; 4]) -> bool {
    let magic = u32::from_ne_bytes(begin);
    magic == MAGIC || magic == MAGIC.swap_bytes()
}

impl Header {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, JitDumpError> {
        let magic = u32_at(bytes, 0).ok_or(JitDumpError::NoHeader)?;
        if magic == MAGIC.swap_bytes() {
            return Err(JitDumpError::OtherByteOrder);
        }
        let words = (u32_at(bytes, 4), u32_at(bytes, 8), u64_at(bytes, 32));
        let (MAGIC, (Some(version), Some(length), Some(flags))) = (magic, words) else {
            return Err(JitDumpError::NoHeader);
        };
        if version != VERSION {
            return Err(JitDumpError::Version(version));
        }
        if (length as usize) < HEADER {
            return Err(JitDumpError::NoHeader);
        }
        Ok(Self { length: length.into(), has_clock_times: flags & ARCH_TIMESTAMP == 0 })
    }
}

impl Prefix {
    /// `None`: there are too few bytes.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let kind = match u32_at(bytes, 0)? {
            0 => Kind::Load,
            1 => Kind::Move,
            2 => Kind::Lines,
            _ => Kind::Other,
        };
        Some(Self { kind, length: u32_at(bytes, 4)?.into(), time_ns: u64_at(bytes, 8)? })
    }
}

impl Load {
    /// From the bytes behind the prefix.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        // Process, thread and `vma` come first; `vma` is the same address.
        Some(Self { start: u64_at(bytes, 16)?, size: u64_at(bytes, 24)? })
    }
}

impl Move {
    /// From the bytes behind the prefix.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self { from: u64_at(bytes, 16)?, to: u64_at(bytes, 24)?, size: u64_at(bytes, 32)? })
    }
}

/// The address of the code that lines belong to, and the lines, from the bytes behind the prefix. Lines end where they are cut off.
pub(super) fn lines(bytes: &[u8]) -> Option<(u64, impl Iterator<Item = Line<'_>>)> {
    let (code, mut left) = (u64_at(bytes, 0)?, u64_at(bytes, 8)?);
    let (mut rest, mut file): (&[u8], &[u8]) = (bytes.get(LINES..)?, b"");
    let next = move || {
        left = left.checked_sub(1)?;
        let (address, line, column) = (u64_at(rest, 0)?, u32_at(rest, 8)?, u32_at(rest, 12)?);
        let behind = rest.get(LINE..)?;
        let name = up_to_nul(behind)?;
        rest = behind.get(name.len() + 1..)?;
        if name != SAME_FILE {
            file = name;
        }
        Some(Line { address, line, column, file })
    };
    Some((code, std::iter::from_fn(next)))
}

/// The bytes before the first zero. `None`: there is no zero.
pub(super) fn up_to_nul(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(..bytes.iter().position(|byte| *byte == 0)?)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(magic: u32, version: u32, length: u32, flags: u64) -> Vec<u8> {
        let words = [magic, version, length, 62, 0, 1].map(u32::to_ne_bytes).concat();
        [words, 7u64.to_ne_bytes().to_vec(), flags.to_ne_bytes().to_vec()].concat()
    }

    #[test]
    fn headers_are_checked() {
        let read = |bytes: &[u8]| Header::read(bytes).map_err(|error| error.to_string());
        assert_eq!(read(&header(MAGIC, 1, 40, 0)), Ok(Header { length: 40, has_clock_times: true }));
        assert_eq!(read(&header(MAGIC, 1, 48, 1)), Ok(Header { length: 48, has_clock_times: false }));
        for (bytes, why) in [
            (header(MAGIC, 2, 40, 0), "version 2"),
            (header(MAGIC, 1, 39, 0), "does not begin"),
            (header(0x7F45_4C46, 1, 40, 0), "does not begin"),
            (header(MAGIC.swap_bytes(), 1, 40, 0), "byte order"),
            (header(MAGIC, 1, 40, 0)[..39].to_vec(), "does not begin"),
            (Vec::new(), "does not begin"),
        ] {
            let told = read(&bytes).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn lines_keep_the_file_before_and_end_where_they_are_cut_off() {
        let line = |address: u64, line: u32, column: u32, file: &[u8]| {
            let words = [line.to_ne_bytes(), column.to_ne_bytes()].concat();
            [&address.to_ne_bytes()[..], &words, file, b"\0"].concat()
        };
        let all = [line(0x10, 1, 2, b"a.js"), line(0x14, 3, 4, b"\xff"), line(0x18, 5, 6, b"")].concat();
        let bytes = [&0x10u64.to_ne_bytes()[..], &3u64.to_ne_bytes(), &all].concat();
        let read = |bytes: &[u8]| -> Vec<(u64, u32, u32, Vec<u8>)> {
            let (code, lines) = lines(bytes).unwrap();
            assert_eq!(code, 0x10);
            lines.map(|line| (line.address, line.line, line.column, line.file.to_vec())).collect()
        };
        let whole = read(&bytes);
        assert_eq!(whole[..2], [(0x10, 1, 2, b"a.js".to_vec()), (0x14, 3, 4, b"a.js".to_vec())]);
        assert_eq!(whole[2..], [(0x18, 5, 6, Vec::new())]);
        assert_eq!(read(&bytes[..bytes.len() - 1]), whole[..2]);
        let many = [&0x10u64.to_ne_bytes()[..], &u64::MAX.to_ne_bytes(), &all].concat();
        assert_eq!(read(&many), whole, "there are no more");
        assert!(lines(&bytes[..15]).is_none());
    }
}
