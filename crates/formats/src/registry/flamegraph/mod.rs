//! SVG flame graphs, drawn by `inferno`.
//!
//! The SVG is self-contained. Its values and the names of its frames are those of the folded stacks, not rounded. A
//! frame's colour depends on the function's name alone.

use std::io::{self, Write};

use inferno::flamegraph::{Options, TextTruncateDirection, from_lines};
use profile::Profile;

use super::folded;
use crate::{EncodeOptions, Encoder};

/// The flame graph as a registered format.
pub struct FlameGraph;

impl Encoder for FlameGraph {
    fn name(&self) -> &'static str {
        "flamegraph"
    }

    fn extensions(&self) -> &[&'static str] {
        &["svg"]
    }

    fn encode(&self, profile: &Profile, options: &EncodeOptions, out: &mut dyn Write) -> io::Result<()> {
        write(profile, options.value_index(profile), &options.title, out)
    }
}

/// Writes the flame graph of value number `value_index`, labelled with that value's unit. A profile without samples
/// gives a graph of one frame, `[no samples]`.
///
/// # Errors
/// Those of `out`; [`io::ErrorKind::InvalidInput`] if the profile has no value of that number.
pub fn write(profile: &Profile, value_index: usize, title: &str, out: &mut dyn Write) -> io::Result<()> {
    let stacks = folded::stacks(profile, value_index)?;
    let value_type = &profile.sample_types[value_index];
    // Not scaled: inferno computes percentages from the values after it has rounded them for display.
    let count_name = match value_type.unit.as_str() {
        "nanoseconds" => "ns",
        "count" => value_type.kind.as_str(),
        unit => unit,
    };
    let mut options = Options::default();
    options.title = title.to_owned();
    options.count_name = count_name.to_owned();
    options.deterministic = true;
    options.text_truncate_direction = TextTruncateDirection::Right;
    let mut stacks: Vec<(String, i64)> = stacks.into_iter().filter(|(_, value)| *value > 0).collect();
    if stacks.is_empty() {
        stacks.push(("[no samples]".to_owned(), 1));
        options.factor = f64::MIN_POSITIVE;
    }
    // inferno merges only neighbouring lines, and its own sort by whole lines puts `f10;x` between `f1` and `f1;x`. A
    // flame chart is drawn in the given order, last line first.
    options.flame_chart = true;
    stacks.sort_by(|(a, _), (b, _)| b.split(';').cmp(a.split(';')));
    let lines: Vec<String> =
        stacks.iter().map(|(stack, value)| format!("{} {value}", literal(stack))).collect();
    from_lines(&mut options, lines.iter().map(String::as_str), out)
}

/// inferno reads a line that begins with `# ` as a comment, and a number before the value as a second value. In such
/// stacks a no-break space replaces the blank.
fn literal(stack: &str) -> String {
    let number = |s: &str| s.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let stack = match stack.rsplit_once(' ') {
        Some((head, tail)) if number(tail) => format!("{head}\u{a0}{tail}"),
        _ => stack.to_owned(),
    };
    if stack.starts_with("# ") { stack.replacen(' ', "\u{a0}", 1) } else { stack }
}
