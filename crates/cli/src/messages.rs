//! Messages on standard error, one line each.
//!
//! A closed or full standard error fails nothing. Control characters in a message are escaped, so the name of a process
//! or a path can neither move the cursor nor forge a line.

use std::fmt::Write as _;
use std::io::Write as _;

/// One line.
pub fn line(text: &str) {
    // The capture goes on without a reader.
    let _closed_is_fine = writeln!(std::io::stderr().lock(), "{}", one_line(text));
}

/// `error: …` and, if there is one, `hint: …`.
pub fn error(text: &str, hint: Option<&str>) {
    line(&format!("error: {text}"));
    if let Some(hint) = hint {
        line(&format!("hint: {hint}"));
    }
}

/// `warning: …` and, if there is one, `hint: …`.
pub fn warning(text: &str, hint: Option<&str>) {
    line(&format!("warning: {text}"));
    if let Some(hint) = hint {
        line(&format!("hint: {hint}"));
    }
}

/// An error of the library with all its causes.
pub fn library_error(error: &perfagent::Error) {
    self::error(&error.to_string(), error.hint().as_deref());
}

/// Escapes control characters.
fn one_line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            let _never_fails = write!(shown, "{}", c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(one_line("a\nerror: forged\u{1b}[2J\té"), "a\\nerror: forged\\u{1b}[2J\\té");
    }
}
