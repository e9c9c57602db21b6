//! Messages on standard error, one line each.
//!
//! A closed or full standard error fails nothing. Hidden characters in a message are escaped, so the name of a process
//! or a path can neither move the cursor, nor forge a line, nor turn the direction of a text.

use perfagent::visible;

use crate::console::{Tone, console};

/// One line.
pub fn line(text: &str) {
    styled(&visible(text));
}

/// One line that `--quiet` leaves out.
pub fn note(text: &str) {
    styled_note(&visible(text));
}

/// One line that stands out.
pub fn strong(text: &str) {
    styled(&console().paint(Tone::Strong, &visible(text)));
}

/// One line that may have colours, and in which hidden characters are escaped already.
pub fn styled(text: &str) {
    // libtest captures only what the macros print.
    #[cfg(test)]
    eprintln!("{text}");
    // The capture goes on without a reader.
    #[cfg(not(test))]
    let _closed_is_fine = std::io::Write::write_fmt(&mut std::io::stderr().lock(), format_args!("{text}\n"));
}

/// As [`styled`]; `--quiet` leaves it out.
pub fn styled_note(text: &str) {
    if !console().quiet {
        styled(text);
    }
}

/// `error: …` and, if there is one, `hint: …`.
pub fn error(text: &str, hint: Option<&str>) {
    headed(Tone::Error, "error:", text);
    if let Some(hint) = hint {
        headed(Tone::Hint, "hint:", hint);
    }
}

/// `warning: …` and, if there is one, `hint: …`.
pub fn warning(text: &str, hint: Option<&str>) {
    headed(Tone::Warning, "warning:", text);
    if let Some(hint) = hint {
        headed(Tone::Hint, "hint:", hint);
    }
}

/// One line that begins with a word in a colour.
pub fn headed(tone: Tone, head: &str, text: &str) {
    styled(&format!("{} {}", console().paint(tone, head), visible(text)));
}

/// An error of the library with all its causes.
pub fn library_error(error: &perfagent::Error) {
    self::error(&error.to_string(), error.hint().as_deref());
}
