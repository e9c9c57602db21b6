//! Strings of Python.

/// A string whose characters have 1, 2 or 4 bytes each. What is no character is replaced.
#[must_use]
pub fn text(bytes: &[u8], character_bytes: u8) -> String {
    let scalar = |code: u32| char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    match character_bytes {
        1 => bytes.iter().map(|byte| char::from(*byte)).collect(),
        2 => bytes.as_chunks().0.iter().map(|unit| scalar(u16::from_ne_bytes(*unit).into())).collect(),
        4 => bytes.as_chunks().0.iter().map(|unit| scalar(u32::from_ne_bytes(*unit))).collect(),
        _ => String::new(),
    }
}
