//! Paths in texts of probes. A byte that a text cannot have is written `\xHH`: a blank ends an argument, and a colon may end the path.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// Reads a path: `\x20` is the byte 0x20, other backslashes are themselves.
///
/// # Errors
/// The reason in words: digits are missing, or the byte is 0.
pub fn read_path(text: &str) -> Result<PathBuf, String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        let Some(escaped) = rest.strip_prefix(b"\\x") else {
            bytes.push(*first);
            rest = behind;
            continue;
        };
        let digits = escaped.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(0) => return Err("no path has the byte \\x00".to_owned()),
            Some(byte) => bytes.push(byte),
            None => {
                return Err(format!("two hexadecimal digits follow \\x in a path, as in \\x20: `{text}`"));
            }
        }
        rest = escaped.get(2..).unwrap_or_default();
    }
    Ok(OsString::from_vec(bytes).into())
}

/// A path as [`read_path`] reads it.
#[must_use]
pub fn shown_path(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter.is_whitespace() || letter.is_control() || matches!(letter, ':' | '\\') {
                let mut bytes = [0; 4];
                escape(letter.encode_utf8(&mut bytes).as_bytes(), &mut text);
            } else {
                text.push(letter);
            }
        }
        escape(chunk.invalid(), &mut text);
    }
    text
}

fn escape(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        // Writing into a string does not fail.
        let _ = write!(text, "\\x{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_are_bytes() {
        for (text, path) in [
            (r"/opt/my\x20app/lib\x3a1.so", &b"/opt/my app/lib:1.so"[..]),
            (r"/a\b\x5c\xff", b"/a\\b\\\xff"),
            ("/plain", b"/plain"),
        ] {
            assert_eq!(read_path(text).unwrap().as_os_str().as_bytes(), path);
        }
        for text in [r"/a\x", r"/a\x2", r"/a\xg0", r"/a\x+1", r"/a\x00"] {
            assert!(read_path(text).is_err(), "{text}");
        }
        assert_eq!(shown_path("/opt/my app:1".as_ref()), r"/opt/my\x20app\x3a1");
    }

    proptest! {
        #[test]
        fn a_shown_path_is_read_again(bytes in prop::collection::vec(1u8.., 0..40)) {
            let path = PathBuf::from(OsString::from_vec(bytes));
            let text = shown_path(&path);
            prop_assert!(!text.contains([' ', ':', '\n']));
            prop_assert_eq!(read_path(&text), Ok(path));
        }

        #[test]
        fn any_text_is_handled(text in r".{0,40}|(\\x[0-9a-g]{0,3}){0,9}") {
            let _ = read_path(&text);
        }
    }
}
