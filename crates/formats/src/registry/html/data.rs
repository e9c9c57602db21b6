//! The data block of a report: which columns there are. `page/data.js` reads them.

use std::borrow::Cow;
use std::io;

use profile::{Profile, ValueType, visible};
use serde::Serialize;

use super::columns::Columns;
use super::facets::Facets;
use super::frames::{Frame, Frames};
use super::times::{self, Bins};
use super::tree::{Row, Tree};
use crate::EncodeOptions;
use crate::kind_colors::{self, KINDS, shade};

/// Raised when the meaning of the block changes.
const VERSION: u32 = 1;

/// At most this many comments that are not part of the ledger are shown.
const MAX_COMMENTS: usize = 1000;

#[derive(Serialize)]
struct Header<'a> {
    version: u32,
    program: &'static str,
    title: Cow<'a, str>,
    subtitle: Cow<'a, str>,
    /// Length of the capture; 0 if unknown.
    duration_ns: i64,
    kinds: Vec<Kind>,
    values: Vec<Value<'a>>,
    /// The value that is shown first.
    shown: usize,
    facets: Vec<String>,
    /// Keys and values of the ledger.
    ledger: Vec<(String, String)>,
    comments: Vec<String>,
    /// What is poor about the profile, and what to do about it.
    warnings: Vec<Cow<'a, str>>,
    icicle: bool,
    /// How many parts of equal length the time has; none if times are unknown.
    time: Option<Bins>,
}

#[derive(Serialize)]
struct Kind {
    name: &'static str,
    hsl: [u32; 3],
}

#[derive(Serialize)]
struct Value<'a> {
    kind: &'a str,
    unit: &'a str,
    /// It is so many times the first value, and has no column.
    times: Option<u64>,
}

/// The data of a profile, compressed.
pub(super) fn block(profile: &Profile, options: &EncodeOptions) -> io::Result<Vec<u8>> {
    let mut frames = Frames::new(profile, options.merge);
    let mut facets = Facets::new(profile);
    let mut tree = Tree::default();
    let mut stack = Vec::new();
    for (number, sample) in (0..).zip(&profile.samples) {
        let values: Vec<u64> = sample.values.iter().map(|value| u64::try_from(*value).unwrap_or(0)).collect();
        if values.iter().any(|value| *value > 0) {
            frames.stack(sample, &mut stack);
            tree.add(&stack, facets.group(sample), &values, number);
        }
    }
    let frames = frames.all();
    let (nodes, rows) = tree.finish(&ranks(frames.iter().collect()));
    // The most frequent frames have the smallest numbers, which take one byte.
    let mut uses = vec![0_u32; frames.len()];
    nodes.iter().for_each(|node| uses[node.frame as usize] += 1);
    let mut by_use: Vec<usize> = (0..frames.len()).filter(|frame| uses[*frame] > 0).collect();
    by_use.sort_by_key(|frame| std::cmp::Reverse(uses[*frame]));
    let mut code = vec![0_u64; frames.len()];
    (0..).zip(&by_use).for_each(|(number, frame)| code[*frame] = number);

    let mut columns = Columns::default();
    let used = || by_use.iter().filter_map(|frame| frames.get_index(*frame));
    add_frames(&mut columns, used);
    columns.numbers("node.up", nodes.iter().map(|node| node.up.into()));
    columns.numbers("node.frame", nodes.iter().map(|node| code[node.frame as usize]));
    columns.close_numbers("row.node", rows.iter().map(|row| row.node));
    columns.numbers("row.group", rows.iter().map(|row| row.group.into()));
    let values = add_values(&mut columns, &profile.sample_types, &rows);
    for (number, facet) in facets.all.iter().enumerate() {
        columns.texts(&format!("facet.{number}"), facet.values.iter().map(String::as_str));
        columns.numbers(&format!("group.{number}"), facets.groups.iter().map(|group| group[number].into()));
    }
    let (ledger, comments) = comments(profile);
    let header = Header {
        version: VERSION,
        program: concat!("perf-agent ", env!("CARGO_PKG_VERSION")),
        title: visible(&options.title),
        subtitle: visible(&options.subtitle),
        duration_ns: profile.duration_ns,
        kinds: KINDS.iter().map(|color| Kind { name: color.name, hsl: color.hsl }).collect(),
        values,
        shown: options.value_index(profile),
        facets: facets.all.iter().map(|facet| visible(facet.name).into_owned()).collect(),
        ledger,
        comments,
        warnings: options.warnings.iter().map(|warning| visible(warning)).collect(),
        icicle: options.inverted,
        time: times::add(&mut columns, profile, &rows),
    };
    columns.finish(&header)
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

/// Adds the values, except those that are a multiple of the first one.
fn add_values<'a>(columns: &mut Columns, types: &'a [ValueType], rows: &[Row]) -> Vec<Value<'a>> {
    let mut values = Vec::new();
    for (number, of) in types.iter().enumerate() {
        let at = |row: &Row, number: usize| row.values.get(number).copied().unwrap_or(0);
        let times = rows.first().and_then(|row| at(row, number).checked_div(at(row, 0)));
        let is_multiple = |times: &u64| {
            number > 0 && rows.iter().all(|row| at(row, 0).checked_mul(*times) == Some(at(row, number)))
        };
        let times = times.filter(is_multiple);
        if times.is_none() {
            columns.numbers(&format!("row.value.{number}"), rows.iter().map(|row| at(row, number)));
        }
        values.push(Value { kind: &of.kind, unit: &of.unit, times });
    }
    values
}

/// Keys and values of the ledger, and other comments.
fn comments(profile: &Profile) -> (Vec<(String, String)>, Vec<String>) {
    let (mut ledger, mut comments) = (Vec::new(), Vec::new());
    for comment in &profile.comments {
        let entry = comment.strip_prefix("perf-agent.").and_then(|entry| entry.split_once('='));
        match entry {
            Some((key, value)) => ledger.push((visible(key).into_owned(), visible(value).into_owned())),
            None if comments.len() < MAX_COMMENTS => comments.push(visible(comment).into_owned()),
            None => {}
        }
    }
    (ledger, comments)
}
