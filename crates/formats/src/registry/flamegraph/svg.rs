//! The picture as text.

use std::io::{self, Write};

use profile::ValueType;

use super::layout::Rectangle;
use super::tree::{Node, Tree};
use crate::kind_colors::{self, KINDS, KindColor};
use crate::markup::escaped;
use crate::{EncodeOptions, amount};

/// Width of the picture where no script makes it as wide as its window.
const WIDTH: f64 = 1200.0;
/// Free space left and right of the frames.
const MARGIN: f64 = 10.0;
/// Width of all frames together.
pub(super) const FRAMES_WIDTH: f64 = WIDTH - 2.0 * MARGIN;
/// Height of a row.
const ROW: usize = 18;
/// Height of title and legend.
const HEAD: usize = 78;
/// Height of the line for details.
const FOOT: usize = 30;
/// Width of a character, about.
const CHARACTER: f64 = 6.9;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// What is drawn.
pub(super) struct Picture<'a> {
    pub(super) tree: &'a Tree,
    pub(super) rectangles: &'a [Rectangle],
    pub(super) unit: &'a ValueType,
    pub(super) options: &'a EncodeOptions,
}

/// Writes the picture.
pub(super) fn write(picture: &Picture<'_>, out: &mut dyn Write) -> io::Result<()> {
    let rows = picture.rectangles.iter().map(|rectangle| rectangle.depth + 1).max().unwrap_or(1);
    let height = HEAD + rows * ROW + FOOT;
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         data-total=\"{}\">",
        picture.tree.root().total
    )?;
    writeln!(out, "<style>{STYLE}</style>")?;
    writeln!(out, "<rect class=\"back\" width=\"100%\" height=\"100%\"/>")?;
    writeln!(
        out,
        "<text class=\"title\" x=\"{MARGIN}\" y=\"24\">{}</text>",
        escaped(&picture.options.title)
    )?;
    writeln!(
        out,
        "<text class=\"about\" x=\"{MARGIN}\" y=\"43\">{}</text>",
        escaped(&picture.options.subtitle)
    )?;
    write_legend(picture, out)?;
    writeln!(
        out,
        "<text id=\"reset\" class=\"action\" x=\"{MARGIN}\" y=\"{}\" display=\"none\">Reset zoom</text>",
        height - 10
    )?;
    writeln!(out, "<text id=\"details\" x=\"{MARGIN}\" y=\"{}\"> </text>", height - 10)?;
    writeln!(
        out,
        "<text id=\"search\" class=\"action\" x=\"100%\" dx=\"-{MARGIN}\" y=\"24\" display=\"none\">Search</text>"
    )?;
    writeln!(out, "<text id=\"matched\" x=\"100%\" dx=\"-{MARGIN}\" y=\"43\"> </text>")?;
    writeln!(out, "<g id=\"frames\">")?;
    for rectangle in picture.rectangles {
        write_frame(picture, rectangle, rows, out)?;
    }
    writeln!(out, "</g>")?;
    writeln!(out, "<script><![CDATA[{SCRIPT}]]></script>")?;
    writeln!(out, "</svg>")
}

fn write_legend(picture: &Picture<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut x = MARGIN;
    for KindColor { kind, name, .. } in KINDS {
        let is_shown = |rectangle: &Rectangle| {
            rectangle.depth > 0 && picture.tree.node(rectangle.node).frame.kind == kind
        };
        if picture.rectangles.iter().any(is_shown) {
            let fill = kind_colors::of(kind).plain();
            writeln!(
                out,
                "<rect x=\"{x:.0}\" y=\"54\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{fill}\"/>"
            )?;
            writeln!(out, "<text class=\"legend\" x=\"{:.0}\" y=\"64\">{name}</text>", x + 17.0)?;
            x += 17.0 + CHARACTER * name.chars().count() as f64 + 16.0;
        }
    }
    Ok(())
}

fn write_frame(
    picture: &Picture<'_>,
    rectangle: &Rectangle,
    rows: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let node = picture.tree.node(rectangle.node);
    let whole = picture.tree.root().total.max(1) as f64;
    let share = if picture.tree.root().total == 0 { 1.0 } else { node.total as f64 / whole };
    let (x, width) = (MARGIN + FRAMES_WIDTH * rectangle.start as f64 / whole, FRAMES_WIDTH * share);
    let row = if picture.options.inverted { rectangle.depth } else { rows - 1 - rectangle.depth };
    let y = HEAD + row * ROW;
    let name = escaped(&node.frame.name);
    let figures = if picture.tree.root().total == 0 { String::new() } else { figures(picture, node) };
    write!(
        out,
        "<g data-x=\"{}\" data-w=\"{}\"><title>{name}\n{figures}</title><rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" \
         height=\"{}\" rx=\"2\" fill=\"{}\"/>",
        rectangle.start,
        node.total,
        ROW - 1,
        fill(node)
    )?;
    let label = escaped(&fit(&node.frame.name, width));
    if !label.is_empty() {
        write!(out, "<text x=\"{:.2}\" y=\"{}\">{label}</text>", x + 3.0, y + 13)?;
    }
    writeln!(out, "</g>")
}

/// `1.234 s, 12.34 % (self 0.1 s, 1 %)`.
fn figures(picture: &Picture<'_>, node: &Node) -> String {
    let whole = picture.tree.root().total.max(1) as f64;
    let of = |value: u64| format!("{}, {:.2} %", amount(value, picture.unit), 100.0 * value as f64 / whole);
    if node.own == 0 || node.own == node.total {
        return of(node.total);
    }
    format!("{}; self {}", of(node.total), of(node.own))
}

/// The begin of a name, as far as it fits.
fn fit(name: &str, width: f64) -> String {
    let room = ((width - 6.0) / CHARACTER).max(0.0) as usize;
    if name.chars().count() <= room {
        return name.to_owned();
    }
    if room < 3 {
        return String::new();
    }
    name.chars().take(room - 1).chain(['…']).collect()
}

fn fill(node: &Node) -> String {
    kind_colors::of(node.frame.kind).shaded(&node.frame.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_fits_or_is_left_out() {
        assert_eq!(fit("main", 100.0), "main");
        assert_eq!(fit("a_long_function", 60.0), "a_long…");
        assert_eq!(fit("main", 20.0), "");
    }
}
