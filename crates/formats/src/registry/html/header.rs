//! The header of the data block. `page/data.js` reads it.

use std::borrow::Cow;

use profile::{Profile, visible};
use serde::Serialize;

use super::facets::Facets;
use super::times::Bins;
use crate::EncodeOptions;
use crate::kind_colors::KINDS;

/// Raised when the meaning of the block changes.
const VERSION: u32 = 1;

/// At most this many comments that are not part of the ledger are shown.
const MAX_COMMENTS: usize = 1000;

#[derive(Serialize)]
pub(super) struct Header<'a> {
    pub(super) version: u32,
    pub(super) program: &'static str,
    pub(super) title: Cow<'a, str>,
    pub(super) subtitle: Cow<'a, str>,
    /// Length of the capture; 0 if unknown.
    pub(super) duration_ns: i64,
    pub(super) kinds: Vec<Kind>,
    pub(super) values: Vec<Value<'a>>,
    /// The value that is shown first.
    pub(super) shown: usize,
    pub(super) facets: Vec<String>,
    /// Keys and values of the ledger.
    pub(super) ledger: Vec<Entry>,
    pub(super) comments: Vec<String>,
    /// What is poor about the profile, and what to do about it.
    pub(super) warnings: Vec<Cow<'a, str>>,
    pub(super) icicle: bool,
    /// How many parts of equal length the time has; none if times are unknown.
    pub(super) time: Option<Bins>,
    /// What is compared, if two sides are.
    pub(super) difference: Option<Compared<'a>>,
}

/// A key and its value.
pub(super) type Entry = (String, String);

#[derive(Serialize)]
pub(super) struct Kind {
    name: &'static str,
    hsl: [u32; 3],
}

#[derive(Serialize)]
pub(super) struct Value<'a> {
    pub(super) kind: &'a str,
    pub(super) unit: &'a str,
    /// It is so many times the first value, and has no column.
    pub(super) times: Option<u64>,
}

/// Two sides of profiles.
#[derive(Serialize)]
pub(super) struct Compared<'a> {
    /// `share`, or of what samples are counted: `second`, `run`.
    pub(super) measured: &'static str,
    /// The side that gives the widths first.
    pub(super) widths: &'static str,
    /// In the order of the values of the first facet.
    pub(super) profiles: Vec<ComparedProfile<'a>>,
    /// What is to be said about the comparison.
    pub(super) notes: Vec<Cow<'a, str>>,
}

/// A profile of one side.
#[derive(Serialize)]
pub(super) struct ComparedProfile<'a> {
    pub(super) name: Cow<'a, str>,
    /// 0: before, 1: after.
    pub(super) side: usize,
    pub(super) exposure: f64,
    pub(super) ledger: Vec<Entry>,
}

impl<'a> Header<'a> {
    /// What each page has. The rest is empty.
    pub(super) fn new(options: &'a EncodeOptions, facets: &Facets<'_>, values: Vec<Value<'a>>) -> Self {
        Self {
            version: VERSION,
            program: concat!("perf-agent ", env!("CARGO_PKG_VERSION")),
            title: visible(&options.title),
            subtitle: visible(&options.subtitle),
            duration_ns: 0,
            kinds: KINDS.iter().map(|color| Kind { name: color.name, hsl: color.hsl }).collect(),
            values,
            shown: 0,
            facets: facets.all.iter().map(|facet| visible(facet.name).into_owned()).collect(),
            ledger: Vec::new(),
            comments: Vec::new(),
            warnings: options.warnings.iter().map(|warning| visible(warning)).collect(),
            icicle: options.inverted,
            time: None,
            difference: None,
        }
    }
}

/// Keys and values of the ledger of a profile, and its other comments.
pub(super) fn comments(profile: &Profile) -> (Vec<Entry>, Vec<String>) {
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
