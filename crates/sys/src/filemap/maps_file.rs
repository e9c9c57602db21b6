//! Mappings of this process, as `/proc/self/maps` shows them.

use std::ops::Range;

/// Bytes of a line that are kept: two addresses, access, offset, device and inode. The path behind them is not needed.
const LINE: usize = 128;
/// Small, because the stack of a signal handler is.
const CHUNK: usize = 512;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub range: Range<usize>,
    /// Whether it can be read, and neither be written nor executed.
    pub is_read_only: bool,
    pub has_file: bool,
}

/// The mappings could not be read.
#[derive(Debug)]
pub(super) struct Unreadable;

/// Understands a line. Async-signal-safe.
pub(super) fn parse(line: &[u8]) -> Option<Mapping> {
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let mut word = || std::str::from_utf8(words.next()?).ok();
    let (start, end) = word()?.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let range = address(start)?..address(end)?;
    let (access, _offset, _device, inode) = (word()?, word()?, word()?, word()?);
    Some(Mapping { range, is_read_only: access.starts_with("r--"), has_file: inode != "0" })
}

/// The mapping that contains an address. Async-signal-safe.
pub(super) fn containing(address: usize) -> Result<Option<Mapping>, Unreadable> {
    // SAFETY: the path ends with a zero.
    let fd = unsafe { libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(Unreadable);
    }
    let found = find_in(fd, address);
    // SAFETY: the descriptor was opened above and is not used any more.
    unsafe { libc::close(fd) };
    found
}

fn find_in(fd: libc::c_int, address: usize) -> Result<Option<Mapping>, Unreadable> {
    let (mut line, mut len) = ([0; LINE], 0);
    let mut chunk = [0u8; CHUNK];
    loop {
        // SAFETY: the buffer is writable and has this length.
        let count = unsafe { libc::read(fd, chunk.as_mut_ptr().cast(), CHUNK) };
        let bytes = usize::try_from(count).ok().and_then(|count| chunk.get(..count)).ok_or(Unreadable)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        for byte in bytes {
            if *byte == b'\n' {
                let mapping = line.get(..len).and_then(parse);
                if let Some(mapping) = mapping.filter(|mapping| mapping.range.contains(&address)) {
                    return Ok(Some(mapping));
                }
                len = 0;
            } else if let Some(place) = line.get_mut(len) {
                *place = *byte;
                len += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed() {
        let mapping = |line: &str| parse(line.as_bytes()).map(|m| (m.range, m.is_read_only, m.has_file));
        assert_eq!(mapping("7f00-7f10 r--p 00000000 00:00 0 "), Some((0x7f00..0x7f10, true, false)));
        assert_eq!(
            mapping("7f00-7f10 rw-p 00000000 00:00 0                  [heap]"),
            Some((0x7f00..0x7f10, false, false))
        );
        assert_eq!(
            mapping("7f00-7f10 r--s 00001000 fe:00 17 /tmp/0 00:00 0"),
            Some((0x7f00..0x7f10, true, true))
        );
        assert_eq!(mapping("7f00-7f10 r-xp 00001000 fe:00 17 /tmp/0"), Some((0x7f00..0x7f10, false, true)));
        for line in ["", "7f00", "7f00 r--p 0 0 0", "7f00-x r--p 0 0 0", "7f00-7f10 r--p 0 0"] {
            assert_eq!(mapping(line), None, "{line}");
        }
    }

    #[test]
    fn the_mapping_of_an_address_is_found() {
        static TEXT: &str = "in a read-only part of this program";
        let text = containing(TEXT.as_ptr().addr()).unwrap().unwrap();
        assert!(text.has_file, "{text:?}");
        let local = 0u8;
        let stack = containing((&raw const local).addr()).unwrap().unwrap();
        assert!(!stack.has_file && !stack.is_read_only, "{stack:?}");
        assert_eq!(containing(0).unwrap(), None);
    }
}
