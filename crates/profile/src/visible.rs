//! Foreign text as it may be shown to a person.
//!
//! In: which characters are not shown as they are, and their escapes.
//! Guaranteed: shown text holds no control characters, no line breaks, and none of the marks that change the direction of
//! other text, so it cannot pass for something that this program says.
//! Not here: what a file format reserves.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character controls a terminal, breaks a line, or changes how the characters around it are shown (Unicode
/// Standard Annex 9, "Explicit Directional Embeddings", and the invisible operators of Annex 14).
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Adds the escape of a hidden character.
pub fn push_escaped(text: &mut String, c: char) {
    // Writing into a string never fails.
    let _never_fails = write!(text, "{}", c.escape_default());
}

/// The text with hidden characters escaped.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            push_escaped(&mut shown, c);
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_escaped() {
        assert_eq!(visible("a\nerror: forged\u{1b}[2J\té"), "a\\nerror: forged\\u{1b}[2J\\té");
        assert_eq!(
            visible("safe\u{202e}gpj.\u{2066}exe\u{2028}next\u{feff}"),
            "safe\\u{202e}gpj.\\u{2066}exe\\u{2028}next\\u{feff}"
        );
        assert!(matches!(visible("naïve 日本語 🙂 — «text»"), Cow::Borrowed(_)), "visible text stays");
    }
}
