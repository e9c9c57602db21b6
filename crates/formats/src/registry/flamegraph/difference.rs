//! The difference of two sides of profiles as a flame graph: widths of one side, colours by the change.
//!
//! Both sides give one tree, so a frame is compared with the same frame below the same callers. What is significant is judged by the
//! caller; this file counts and draws. A frame without samples on the side of the widths is not drawn.

use std::io::{self, Write};

use profile::Profile;

use super::layout;
use super::svg::{self, FRAMES_WIDTH, Paint, Picture};
use super::tree::Tree;
use crate::difference::count;
use crate::named_frames::NamedFrames;
use crate::{Counted, Difference, EncodeOptions, Merge, Widths};

/// A change from which on a colour is as strong as it gets: twice, or half.
const STRONGEST: f64 = 2.0;
/// Frames that did not change significantly.
const NEUTRAL: &str = "hsl(0,0%,78%)";

/// What was counted of a frame on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Its samples.
    pub count: u64,
    /// The sum over the profiles of the square of its samples, divided by the exposure of the profile.
    pub squares: f64,
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

/// Draws the difference. `judge` gets what was counted of each frame, before and after, and gives as many judgements.
///
/// # Errors
/// Those of `out`; [`io::ErrorKind::InvalidInput`] if `judge` does not give a judgement for each frame.
pub fn write_difference(
    difference: &Difference<'_>,
    judge: impl FnOnce(&[(Tally, Tally)]) -> Vec<Judgement>,
    options: &EncodeOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let profiles: Vec<&Profile> = difference.all().map(|of| of.profile).collect();
    let frames = NamedFrames::of_several(&profiles, Merge::Comm);
    let (before, after) = frames.split_at(difference.before.len());
    let mut tree = Tree::empty();
    let mut side = |profiles: &[Counted<'_>], frames: &[NamedFrames], is_wide| {
        let mut tallies = Vec::new();
        for (profile, frames) in profiles.iter().zip(frames) {
            add(&mut tree, &mut tallies, profile, frames, is_wide);
        }
        tallies
    };
    let before = side(difference.before, before, difference.widths == Widths::Before);
    let after = side(difference.after, after, difference.widths == Widths::After);
    let of = |tallies: &[Tally], node: usize| tallies.get(node).copied().unwrap_or_default();
    let pairs: Vec<_> = (0..tree.len()).map(|node| (of(&before, node), of(&after, node))).collect();
    let judgements = judge(&pairs);
    if judgements.len() != pairs.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not every frame was judged"));
    }
    let rectangles = layout::rectangles(&tree, FRAMES_WIDTH);
    let paint = ByChange { pairs: &pairs, judgements: &judgements };
    svg::write(&Picture { tree: &tree, rectangles: &rectangles, paint: &paint, options }, out)
}

/// Adds the stacks of a profile to the tree, with their samples if these give the widths, and to the tallies of its side.
fn add(tree: &mut Tree, tallies: &mut Vec<Tally>, of: &Counted<'_>, frames: &NamedFrames, is_wide: bool) {
    let mut counts: Vec<u64> = Vec::new();
    for sample in &of.profile.samples {
        let count = count(of, sample);
        if count == 0 {
            continue;
        }
        let owners = frames.owners(sample);
        let path = tree.path(owners.iter().chain(frames.stack(sample)));
        counts.resize(tree.len(), 0);
        for at in &path {
            counts[*at] = counts[*at].saturating_add(count);
        }
        if is_wide {
            tree.add(&path, count);
        }
    }
    tallies.resize(tree.len(), Tally::default());
    for (tally, count) in tallies.iter_mut().zip(counts) {
        tally.count = tally.count.saturating_add(count);
        tally.squares += (count as f64).powi(2) / of.exposure.max(f64::MIN_POSITIVE);
    }
}

/// The look of a difference. All fields by number of the node.
struct ByChange<'a> {
    pairs: &'a [(Tally, Tally)],
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
        let side = |of: fn(&(Tally, Tally)) -> Tally| {
            let whole = self.pairs.first().map_or(1, |pair| of(pair).count).max(1) as f64;
            let count = self.pairs.get(node).map_or(0, |pair| of(pair).count);
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
