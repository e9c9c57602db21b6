//! The picture as text.

use std::io::{self, Write};

use super::layout::Rectangle;
use super::tree::Tree;
use crate::EncodeOptions;
use crate::markup::escaped;

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

/// What the colours mean, and what is told of a frame.
pub(super) trait Paint {
    /// The colour of a node.
    fn fill(&self, node: usize) -> String;
    /// What the node's title tells below its name.
    fn figures(&self, node: usize) -> String;
    /// Colours with what they mean, as far as these nodes have them.
    fn legend(&self, nodes: &[usize]) -> Vec<(String, &'static str)>;
}

/// What is drawn.
pub(super) struct Picture<'a> {
    pub(super) tree: &'a Tree,
    pub(super) rectangles: &'a [Rectangle],
    pub(super) paint: &'a dyn Paint,
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
    let nodes: Vec<usize> = picture.rectangles.iter().filter(|of| of.depth > 0).map(|of| of.node).collect();
    for (fill, name) in picture.paint.legend(&nodes) {
        writeln!(out, "<rect x=\"{x:.0}\" y=\"54\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{fill}\"/>")?;
        writeln!(out, "<text class=\"legend\" x=\"{:.0}\" y=\"64\">{name}</text>", x + 17.0)?;
        x += 17.0 + CHARACTER * name.chars().count() as f64 + 16.0;
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
    let figures =
        if picture.tree.root().total == 0 { String::new() } else { picture.paint.figures(rectangle.node) };
    write!(
        out,
        "<g data-x=\"{}\" data-w=\"{}\"><title>{name}\n{figures}</title><rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" \
         height=\"{}\" rx=\"2\" fill=\"{}\"/>",
        rectangle.start,
        node.total,
        ROW - 1,
        picture.paint.fill(rectangle.node)
    )?;
    let label = escaped(&fit(&node.frame.name, width));
    if !label.is_empty() {
        write!(out, "<text x=\"{:.2}\" y=\"{}\">{label}</text>", x + 3.0, y + 13)?;
    }
    writeln!(out, "</g>")
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
