//! HTML reports: one self-contained file that a browser opens from disk.
//!
//! In: all samples of a profile, or of two sides of profiles that are compared, as columns in a compressed block, and the page that shows them: flame graph,
//! inverted tree, callers and callees, table, selection. Guaranteed: the page loads nothing and sends nothing, which its Content-Security-Policy enforces; names are data, never
//! markup or script. Not here: what the samples mean and what the ledger says.

mod columns;
mod data;
mod difference;
mod facets;
mod frames;
mod header;
mod page;
mod stacks;
mod times;
mod tree;

use std::io::{self, Write};

use profile::Profile;

use super::folded::check_value;
use crate::{Difference, EncodeOptions, Encoder};

/// The report as a registered format.
pub struct Html;

impl Encoder for Html {
    fn name(&self) -> &'static str {
        "html"
    }

    fn extensions(&self) -> &[&'static str] {
        &["html", "htm"]
    }

    fn tells_warnings(&self) -> bool {
        true
    }

    fn encode(&self, profile: &Profile, options: &EncodeOptions, out: &mut dyn Write) -> io::Result<()> {
        check_value(profile, options.value_index(profile))?;
        page::write(&options.title, &data::block(profile, options)?, out)
    }
}

/// Writes the page of a difference: the same as that of a report, where colours and tables tell what changed. The page judges what is beyond chance itself, for
/// what the reader selects. `notes`: what is to be said about the comparison.
///
/// # Errors
/// Those of `out`.
pub fn write_difference(
    difference: &Difference<'_>,
    notes: &[String],
    options: &EncodeOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    page::write(&options.title, &difference::block(difference, notes, options)?, out)
}
