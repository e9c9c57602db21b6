//! The answer for one address.

use std::borrow::Cow;

use crate::hash::hash;
use crate::shared_text::SharedText;

/// Bytes of the longest text. A file can give one long string to many functions.
pub(crate) const MAX_TEXT: usize = 4096;

/// One function at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourceLine {
    /// Demangled name.
    pub name: SharedText,
    /// Name as in the symbol table or in DWARF.
    pub system_name: SharedText,
    /// Source file, or empty.
    pub file: SharedText,
    /// Source line, 0 if unknown.
    pub line: u32,
    /// Source column, 0 if unknown.
    pub column: u32,
    /// Line of the declaration, 0 if unknown.
    pub start_line: u32,
}

/// The text or, if it is too long, its beginning and a hash of all of it: texts that differ behind the beginning stay different.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_TEXT {
        return Cow::Borrowed(text);
    }
    let mark = format!("\u{2026}{}", mark(text.as_bytes()));
    let begin = &text[..text.floor_char_boundary(MAX_TEXT - mark.len())];
    Cow::Owned([begin, &mark].concat())
}

/// The mark of an omitted text: `#` and its hash.
pub(crate) fn mark(text: &[u8]) -> String {
    format!("#{:016x}", hash(text))
}

/// Bytes as a text. Nearly all are ASCII, which the check for UTF-8 reads in words; the replacement of wrong bytes reads them one
/// by one.
pub(crate) fn text(bytes: &[u8]) -> SharedText {
    match std::str::from_utf8(bytes) {
        Ok(text) => (&*shortened(text)).into(),
        Err(_) => (&*shortened(&String::from_utf8_lossy(bytes))).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_that_differ_at_their_end_stay_different() {
        let long = |end: &str| format!("{}{end}", "\u{e4}".repeat(MAX_TEXT));
        let (one, other) = (long("1"), long("2"));
        let (one, other) = (shortened(&one), shortened(&other));
        assert_ne!(one, other);
        for name in [&one, &other] {
            assert!(name.len() <= MAX_TEXT && name.len() > MAX_TEXT - 4, "{}", name.len());
            let (begin, mark) = name.split_once("\u{2026}#").unwrap();
            assert!(begin.chars().all(|letter| letter == '\u{e4}') && mark.len() == 16);
        }
        let fits = "x".repeat(MAX_TEXT);
        assert_eq!(shortened(&fits), fits);
    }
}
