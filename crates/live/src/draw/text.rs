//! Text in a buffer: placed, cut, and numbers as people read them.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Style;

/// Writes text at a place, as far as the area reaches. Gives the column after it.
pub(super) fn put(buffer: &mut Buffer, area: Rect, x: u16, y: u16, text: &str, style: Style) -> u16 {
    if x >= area.right() || y >= area.bottom() {
        return x;
    }
    buffer.set_stringn(x, y, text, usize::from(area.right() - x), style).0
}

/// Writes text so that it ends at the right edge of the area. Gives its first column.
pub(super) fn put_right(buffer: &mut Buffer, area: Rect, y: u16, text: &str, style: Style) -> u16 {
    let width = u16::try_from(text.chars().count()).unwrap_or(u16::MAX);
    let x = area.right().saturating_sub(width).max(area.x);
    put(buffer, area, x, y, text, style);
    x
}

/// Text with at most `width` characters: an ellipsis stands for what is left out in the middle.
pub(super) fn cut(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    if width < 8 {
        return text.chars().take(width.saturating_sub(1)).chain(['…'].into_iter().take(width)).collect();
    }
    // The end of a name tells more than its middle.
    let end = width / 3;
    let begin = width - end - 1;
    text.chars().take(begin).chain(['…']).chain(text.chars().skip(count - end)).collect()
}

/// A share of a whole in percent.
pub(super) fn percent(value: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.1}%", value as f64 * 100.0 / whole as f64)
}

/// A time in ns.
pub(super) fn time(ns: f64) -> String {
    match ns / 1e9 {
        seconds if seconds >= 100.0 => format!("{seconds:.0} s"),
        seconds if seconds >= 1.0 => format!("{seconds:.1} s"),
        seconds if seconds >= 1e-3 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{:.0} µs", seconds * 1e6),
    }
}

/// A length of time as terminals show it: 42s, 3m05s, 2h07m.
#[must_use]
pub fn length(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m{s:02}s"),
        (h, m, _) => format!("{h}h{m:02}m"),
    }
}

#[cfg(test)]
mod tests {
    use profile::grouped;

    use super::*;

    #[test]
    fn numbers_and_names_are_short() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([5e2, 2.5e6, 3.21e9, 4.2e11].map(time), ["0 µs", "2.5 ms", "3.2 s", "420 s"]);
        assert_eq!([9, 65, 7500].map(length), ["9s", "1m05s", "2h05m"]);
        assert_eq!(cut("a_long_name_of_a_function", 12), "a_long_…tion");
        assert_eq!([cut("abc", 3), cut("abcdef", 3), cut("abc", 0)], ["abc", "ab…", ""]);
        assert_eq!([percent(1, 3), percent(1, 0)], ["33.3%", "-"]);
    }
}
