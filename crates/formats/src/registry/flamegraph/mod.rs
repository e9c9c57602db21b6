//! SVG flame graphs.
//!
//! The SVG is self-contained and readable without its script, which adds zoom and search. A frame is as wide as its share of the
//! profile. Its colour tells its kind, and its shade depends on its name alone; in the picture of a difference, it tells the change.

mod by_kind;
mod difference;
mod layout;
mod svg;
mod tree;

use std::io::{self, Write};

use profile::Profile;

use self::by_kind::ByKind;
pub use self::difference::{Judgement, Tally, write_difference};
use self::tree::Tree;
use super::folded::check_value;
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
        write(profile, options, out)
    }
}

/// Writes the flame graph of the value that the options name. A profile without samples gives a graph of one frame, `[no samples]`.
///
/// # Errors
/// Those of `out`; [`io::ErrorKind::InvalidInput`] if the profile does not have that value.
pub fn write(profile: &Profile, options: &EncodeOptions, out: &mut dyn Write) -> io::Result<()> {
    let value = options.value_index(profile);
    check_value(profile, value)?;
    let tree = Tree::of(profile, value, options.merge);
    let rectangles = layout::rectangles(&tree, svg::FRAMES_WIDTH);
    let unit = profile.sample_types.get(value).cloned().unwrap_or_default();
    let paint = ByKind { tree: &tree, unit: &unit };
    svg::write(&svg::Picture { tree: &tree, rectangles: &rectangles, paint: &paint, options }, out)
}
