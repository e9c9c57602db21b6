//! The stacks of one or several profiles as the columns that all pages have: frames, the tree, groups of samples.

use profile::{Profile, Sample};

use super::columns::Columns;
use super::facets::Facets;
use super::frames::{Frame, FrameSet, Frames};
use super::tree::{Row, Tree};
use crate::kind_colors::{self, shade};
use crate::named_frames::NamedFrames;

/// The stacks while samples are added.
pub(super) struct Stacks<'a> {
    pub(super) facets: Facets<'a>,
    frames: FrameSet,
    tree: Tree,
    /// The stack of the last sample; kept for its memory.
    stack: Vec<u32>,
}

impl<'a> Stacks<'a> {
    /// No samples so far.
    pub(super) fn new(facets: Facets<'a>) -> Self {
        Self { facets, frames: FrameSet::new(), tree: Tree::default(), stack: Vec::new() }
    }

    /// The frames of a profile whose samples are to be added.
    pub(super) fn frames(&mut self, profile: &Profile, named: NamedFrames) -> Frames {
        Frames::new(profile, named, &mut self.frames)
    }

    /// Adds sample number `number` of profile number `of` with its values, unless none is above 0.
    pub(super) fn add(
        &mut self,
        frames: &Frames,
        (of, number): (usize, u32),
        sample: &Sample,
        values: &[u64],
    ) {
        if values.iter().any(|value| *value > 0) {
            frames.stack(sample, &mut self.frames, &mut self.stack);
            self.tree.add(&self.stack, self.facets.group(of, sample), values, number);
        }
    }

    /// Writes the columns, without values. Gives the rows to which values belong, and the facets.
    pub(super) fn finish(self, columns: &mut Columns) -> (Vec<Row>, Facets<'a>) {
        let Self { facets, frames, tree, .. } = self;
        let frames = frames.all();
        let (nodes, rows) = tree.finish(&ranks(frames.iter().collect()));
        // The most frequent frames have the smallest numbers, which take one byte.
        let mut uses = vec![0_u32; frames.len()];
        nodes.iter().for_each(|node| uses[node.frame as usize] += 1);
        let mut by_use: Vec<usize> = (0..frames.len()).filter(|frame| uses[*frame] > 0).collect();
        by_use.sort_by_key(|frame| std::cmp::Reverse(uses[*frame]));
        let mut code = vec![0_u64; frames.len()];
        (0..).zip(&by_use).for_each(|(number, frame)| code[*frame] = number);

        add_frames(columns, || by_use.iter().filter_map(|frame| frames.get_index(*frame)));
        columns.numbers("node.up", nodes.iter().map(|node| node.up.into()));
        columns.numbers("node.frame", nodes.iter().map(|node| code[node.frame as usize]));
        columns.close_numbers("row.node", rows.iter().map(|row| row.node));
        columns.numbers("row.group", rows.iter().map(|row| row.group.into()));
        for (number, facet) in facets.all.iter().enumerate() {
            columns.texts(&format!("facet.{number}"), facet.values.iter().map(String::as_str));
            let of_group = facets.groups.iter().map(|group| group[number].into());
            columns.numbers(&format!("group.{number}"), of_group);
        }
        (rows, facets)
    }
}

/// For each frame its place among all frames in the order of names.
fn ranks(frames: Vec<&Frame>) -> Vec<u32> {
    let mut order: Vec<usize> = (0..frames.len()).collect();
    order.sort_by_key(|frame| frames[*frame]);
    let mut ranks = vec![0; frames.len()];
    (0..).zip(order).for_each(|(rank, frame)| ranks[frame] = rank);
    ranks
}

fn add_frames<'a, I: Iterator<Item = &'a Frame>>(columns: &mut Columns, frames: impl Fn() -> I) {
    columns.texts("frame.name", frames().map(|frame| frame.name.as_str()));
    columns.bytes("frame.kind", frames().map(|frame| kind_colors::of(frame.kind).number() as u8));
    columns.bytes("frame.shade", frames().map(|frame| shade(&frame.name)));
    columns.numbers("frame.rank", ranks(frames().collect()).into_iter().map(u64::from));
    columns.numbers("frame.line", frames().map(|frame| frame.line.into()));
    let mut texts = indexmap::IndexSet::from([""]);
    let mut number = |text: &'a str| texts.insert_full(text).0 as u64;
    columns.numbers("frame.file", frames().map(|frame| number(&frame.file)));
    columns.numbers("frame.module", frames().map(|frame| number(&frame.module)));
    columns.texts("text", texts);
}
