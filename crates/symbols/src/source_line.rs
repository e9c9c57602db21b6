//! The answer for one address.

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

/// The beginning of a text that is too long; else the text.
pub(crate) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

/// Bytes as a text. Nearly all are ASCII, which the check for UTF-8 reads in words; the replacement of wrong bytes reads them one
/// by one.
pub(crate) fn text(bytes: &[u8]) -> SharedText {
    let bytes = &bytes[..bytes.len().min(2 * MAX_TEXT)];
    match std::str::from_utf8(bytes) {
        Ok(text) => cut(text).into(),
        Err(_) => cut(&String::from_utf8_lossy(bytes)).into(),
    }
}
