//! Foreign text between the tags of XML and HTML.

/// The text without characters that XML or HTML reserve or forbid.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if profile::is_hidden(c) || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                profile::push_escaped(&mut out, c);
            }
            c => out.push(c),
        }
    }
    out
}
