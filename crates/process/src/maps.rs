//! `/proc/PID/maps`, line by line.

use std::io::{self, BufRead, BufReader, Read};

/// Bytes of one file that are read: 65,000 mappings with paths of a kilobyte each.
pub(crate) const MAX_BYTES: u64 = 64 << 20;

/// One mapping. The path is as the kernel writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// First address.
    pub start: u64,
    /// Address after the last one.
    pub end: u64,
    /// Whether it is code.
    pub executable: bool,
    /// Whether its memory is that of the file: other processes see what is written there.
    pub shared: bool,
    /// Position in the file.
    pub offset: u64,
    /// Major number of the file's device.
    pub dev_major: u32,
    /// Minor number of the file's device.
    pub dev_minor: u32,
    /// Inode of the file; 0 without a file.
    pub inode: u64,
    /// The path, or a name in brackets, or empty.
    pub path: &'a [u8],
}

/// Calls `each` for every line. Returns whether all of the file was read and understood.
///
/// # Errors
/// Those of `file`.
pub fn for_each(file: impl Read, mut each: impl FnMut(Entry<'_>)) -> io::Result<bool> {
    let mut reader = BufReader::with_capacity(1 << 16, file.take(MAX_BYTES));
    let mut line = Vec::with_capacity(256);
    let mut complete = true;
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(complete && reader.get_ref().limit() > 0);
        }
        match line.strip_suffix(b"\n").and_then(parse) {
            Some(entry) => each(entry),
            None => complete = false,
        }
    }
}

/// `START-END PERMS OFFSET MAJOR:MINOR INODE    PATH`, without the newline.
pub(crate) fn parse(line: &[u8]) -> Option<Entry<'_>> {
    let mut rest = line;
    let start = number(until(&mut rest, b'-')?, 16)?;
    let end = number(until(&mut rest, b' ')?, 16)?;
    let permissions = until(&mut rest, b' ')?;
    let offset = number(until(&mut rest, b' ')?, 16)?;
    let dev_major = number(until(&mut rest, b':')?, 16)?;
    let dev_minor = number(until(&mut rest, b' ')?, 16)?;
    let inode_len = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
    let (inode, path) = rest.split_at(inode_len);
    let blanks = path.iter().take_while(|&&byte| byte == b' ').count();
    if permissions.len() != 4 || start >= end {
        return None;
    }
    Some(Entry {
        start,
        end,
        executable: permissions[2] == b'x',
        shared: permissions[3] == b's',
        offset,
        dev_major: u32::try_from(dev_major).ok()?,
        dev_minor: u32::try_from(dev_minor).ok()?,
        inode: number(inode, 10)?,
        path: &path[blanks..],
    })
}

fn until<'a>(rest: &mut &'a [u8], separator: u8) -> Option<&'a [u8]> {
    let at = rest.iter().position(|&byte| byte == separator)?;
    let (field, behind) = rest.split_at(at);
    *rest = &behind[1..];
    Some(field)
}

fn number(digits: &[u8], radix: u32) -> Option<u64> {
    if digits.is_empty() || digits[0] == b'+' {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()
}

/// Undoes the kernel's escape of newlines. The kernel does not escape backslashes, so a file whose name really holds `\012`
/// looks the same. Code that opens this path therefore compares the inode.
#[must_use]
pub fn unescape(path: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, behind)) = rest.split_first() {
        if let Some(behind) = rest.strip_prefix(b"\\012") {
            plain.push(b'\n');
            rest = behind;
        } else {
            plain.push(byte);
            rest = behind;
        }
    }
    plain
}

/// The path without the mark of a deleted file.
pub(crate) fn without_deleted(path: &[u8]) -> &[u8] {
    path.strip_suffix(b" (deleted)").unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_a_line() {
        let line = b"7f03259c3000-7f03259e5000 r-xp 00002000 fe:00 247026                     /usr/bin/c at ";
        let expected = Entry {
            start: 0x7f03259c3000,
            end: 0x7f03259e5000,
            executable: true,
            shared: false,
            offset: 0x2000,
            dev_major: 0xfe,
            dev_minor: 0,
            inode: 247026,
            path: b"/usr/bin/c at ",
        };
        assert_eq!(parse(line), Some(expected));
        let anonymous = parse(b"ffff0000-ffff1000 rw-p 00000000 00:00 0 ").unwrap();
        assert_eq!((anonymous.path, anonymous.executable, anonymous.inode), (&b""[..], false, 0));
        assert!(parse(b"ffff0000-ffff1000 rw-s 00000000 00:01 7 /memfd:x").unwrap().shared);
    }

    #[test]
    fn refuses_malformed_lines() {
        for line in [
            &b""[..],
            b"1000",
            b"2000-1000 r-xp 0 0:0 0",
            b"1000-1000 r-xp 0 0:0 0",
            b"1000-2000 r-x 0 0:0 0",
            b"+1000-2000 r-xp 0 0:0 0",
            b"1000-2000 r-xp 0 0:0 x",
            b"1000-2000 r-xp 0 1ffffffff:0 0",
            b"10000000000000000-20000000000000000 r-xp 0 0:0 0",
        ] {
            assert_eq!(parse(line), None, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn a_truncated_line_makes_the_result_incomplete() {
        let text = b"1000-2000 r-xp 0 0:0 0\n3000-4000 r-xp 0 0:0 0";
        let mut starts = Vec::new();
        let complete = for_each(&text[..], |entry| starts.push(entry.start)).unwrap();
        assert!(!complete);
        assert_eq!(starts, [0x1000]);
        assert!(for_each(&text[..23], |_| ()).unwrap());
    }

    #[test]
    fn unescapes_newlines_and_nothing_else() {
        assert_eq!(unescape(b"/a\\012b\\040c\\"), b"/a\nb\\040c\\");
        assert_eq!(without_deleted(b"/a b (deleted)"), b"/a b");
        assert_eq!(without_deleted(b"/a (deleted) b"), b"/a (deleted) b");
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = for_each(&bytes[..], |entry| assert!(entry.start < entry.end));
        }

        #[test]
        fn lines_of_the_kernel_are_read_back(
            start in 0u64..u64::MAX / 2, len in 1u64..1 << 40, offset: u64, major in 0u32..0x1000,
            minor in 0u32..0x100000, inode: u64, path in "(/[ -~]{1,40})?",
        ) {
            let end = start + len;
            let line = format!("{start:08x}-{end:08x} r-xp {offset:08x} {major:02x}:{minor:02x} {inode} {path:>3}");
            let entry = parse(line.as_bytes()).unwrap();
            prop_assert_eq!((entry.start, entry.end, entry.offset, entry.inode), (start, end, offset, inode));
            prop_assert_eq!((entry.dev_major, entry.dev_minor), (major, minor));
            prop_assert_eq!(entry.path, path.as_bytes());
        }
    }
}
