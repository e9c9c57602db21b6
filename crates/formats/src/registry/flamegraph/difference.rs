//! The difference of two sides of profiles as a flame graph: widths of one side, colours by the change.
//!
//! Both sides give one tree, so a frame is compared with the same frame below the same callers. What is significant is judged by the
//! caller; this file counts and draws. A frame without samples on the side of the widths is not drawn.

use std::io::{self, Write};

use profile::Profile;

use super::layout;
use super::svg::{self, FRAMES_WIDTH, Paint, Picture};
use super::tree::Tree;
use crate::named_frames::NamedFrames;
use crate::{EncodeOptions, Merge};

/// A change from which on a colour is as strong as it gets: twice, or half.
const STRONGEST: f64 = 2.0;
/// Frames that did not change significantly.
const NEUTRAL: &str = "hsl(0,0%,78%)";

/// Which side gives the widths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Widths {
    /// The one before.
    Before,
    /// The one after.
    #[default]
    After,
}

/// What is known of a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// Growth in percent; infinite where nothing was before.
    pub percent: f64,
    /// The interval of 95 % of it.
    pub interval: (f64, f64),
    /// Whether it is more than chance.
    pub is_significant: bool,
}

/// A profile, and the number of its value that counts samples.
pub type Counted<'a> = (&'a Profile, usize);

/// Draws the difference. `judge` gets the samples of each frame, before and after, and gives as many judgements.
///
/// # Errors
/// Those of `out`; [`io::ErrorKind::InvalidInput`] if `judge` does not give a judgement for each frame.
pub fn write_difference(
    before: &[Counted<'_>],
    after: &[Counted<'_>],
    widths: Widths,
    judge: impl FnOnce(&[(u64, u64)]) -> Vec<Judgement>,
    options: &EncodeOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (wide, other) = match widths {
        Widths::Before => (before, after),
        Widths::After => (after, before),
    };
    let all: Vec<&Profile> = wide.iter().chain(other).map(|(profile, _)| *profile).collect();
    let frames = NamedFrames::of_several(&all, Merge::Comm);
    let (wide_frames, other_frames) = frames.split_at(wide.len());
    let mut tree = Tree::empty();
    each_stack(&mut tree, wide, wide_frames, |tree, path, count| tree.add(path, count));
    let mut others: Vec<u64> = Vec::new();
    each_stack(&mut tree, other, other_frames, |tree, path, count| {
        others.resize(tree.len(), 0);
        for at in path {
            others[*at] = others[*at].saturating_add(count);
        }
    });
    others.resize(tree.len(), 0);
    let pairs: Vec<(u64, u64)> = others
        .iter()
        .enumerate()
        .map(|(node, other)| match widths {
            Widths::Before => (tree.node(node).total, *other),
            Widths::After => (*other, tree.node(node).total),
        })
        .collect();
    let judgements = judge(&pairs);
    if judgements.len() != pairs.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not every frame was judged"));
    }
    let rectangles = layout::rectangles(&tree, FRAMES_WIDTH);
    let paint = ByChange { pairs: &pairs, judgements: &judgements };
    svg::write(&Picture { tree: &tree, rectangles: &rectangles, paint: &paint, options }, out)
}

fn each_stack(
    tree: &mut Tree,
    side: &[Counted<'_>],
    frames: &[NamedFrames],
    mut take: impl FnMut(&mut Tree, &[usize], u64),
) {
    for ((profile, value), frames) in side.iter().zip(frames) {
        for sample in &profile.samples {
            let count = sample.values.get(*value).and_then(|count| u64::try_from(*count).ok()).unwrap_or(0);
            if count > 0 {
                let owners = frames.owners(sample);
                let path = tree.path(owners.iter().chain(frames.stack(sample)));
                take(tree, &path, count);
            }
        }
    }
}

/// The look of a difference. All fields by number of the node.
struct ByChange<'a> {
    pairs: &'a [(u64, u64)],
    judgements: &'a [Judgement],
}

impl ByChange<'_> {
    /// From -1 (half or less) to 1 (twice or more); none if it is not significant. The root stands for all.
    fn strength(&self, node: usize) -> Option<f64> {
        let judgement = self.judgements.get(node).filter(|of| node > 0 && of.is_significant)?;
        let times = (1.0 + judgement.percent / 100.0).clamp(1.0 / STRONGEST, STRONGEST);
        Some(times.log(STRONGEST))
    }
}

impl Paint for ByChange<'_> {
    fn fill(&self, node: usize) -> String {
        self.strength(node).map_or_else(|| NEUTRAL.to_owned(), fill)
    }

    /// `before 10.00 % (10 samples), after 20.00 % (20 samples): +100.0 % (95 %: +10.0 … +300.0 %)`.
    fn figures(&self, node: usize) -> String {
        let side = |of: fn(&(u64, u64)) -> u64| {
            let whole = self.pairs.first().map_or(1, of).max(1) as f64;
            let count = self.pairs.get(node).map_or(0, of);
            format!("{:.2} % ({count} samples)", 100.0 * count as f64 / whole)
        };
        let (before, after) = (side(|pair| pair.0), side(|pair| pair.1));
        let mut told = format!("before {before}, after {after}");
        if let Some(of) = self.judgements.get(node).filter(|_| node > 0) {
            let change =
                if of.percent.is_infinite() { "new".to_owned() } else { format!("{:+.1} %", of.percent) };
            let (low, high) = of.interval;
            let doubt = if of.is_significant { "" } else { ", not significant" };
            told += &format!(": {change} (95 %: {low:+.1} … {high:+.1} %){doubt}");
        }
        told
    }

    fn legend(&self, _nodes: &[usize]) -> Vec<(String, &'static str)> {
        vec![
            (fill(1.0), "twice or more"),
            (fill(0.4), "more"),
            (NEUTRAL.to_owned(), "not significant"),
            (fill(-0.4), "less"),
            (fill(-1.0), "half or less"),
        ]
    }
}

/// Orange for more, blue for less: people who do not tell red from green tell these.
fn fill(strength: f64) -> String {
    let hue = if strength > 0.0 { 28 } else { 212 };
    format!("hsl({hue},88%,{:.0}%)", 84.0 - 26.0 * strength.abs())
}
