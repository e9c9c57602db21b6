//! The data block of a difference: the samples of all profiles of both sides, each with the profile that it is from.

use std::io;

use indexmap::IndexSet;
use profile::{Profile, visible};

use super::columns::Columns;
use super::facets::Facets;
use super::header::{Compared, ComparedProfile, Header, Value, comments};
use super::stacks::Stacks;
use crate::difference::count;
use crate::named_frames::NamedFrames;
use crate::{Difference, EncodeOptions, Measured, Merge, Widths};

/// The data of both sides, compressed.
pub(super) fn block(
    difference: &Difference<'_>,
    notes: &[String],
    options: &EncodeOptions,
) -> io::Result<Vec<u8>> {
    let profiles: Vec<&Profile> = difference.all().map(|of| of.profile).collect();
    let mut stacks = Stacks::new(Facets::of_profiles(names(difference), &profiles));
    let named = NamedFrames::of_several(&profiles, Merge::Comm);
    for (number, (of, named)) in difference.all().zip(named).enumerate() {
        let frames = stacks.frames(of.profile, named);
        for (sample_number, sample) in (0..).zip(&of.profile.samples) {
            stacks.add(&frames, (number, sample_number), sample, &[count(of, sample)]);
        }
    }
    let mut columns = Columns::default();
    let (rows, facets) = stacks.finish(&mut columns);
    columns.numbers("row.value.0", rows.iter().map(|row| row.values.first().copied().unwrap_or(0)));
    let compared = |(number, of): (usize, &crate::Counted<'_>)| ComparedProfile {
        name: visible(of.name).into_owned().into(),
        side: usize::from(number >= difference.before.len()),
        exposure: of.exposure,
        ledger: comments(of.profile).0,
    };
    let header = Header {
        difference: Some(Compared {
            measured: match difference.measured {
                Measured::Share => "share",
                Measured::PerSecond => "second",
                Measured::PerRun => "run",
            },
            widths: match difference.widths {
                Widths::Before => "before",
                Widths::After => "after",
            },
            profiles: difference.all().enumerate().map(compared).collect(),
            notes: notes.iter().map(|note| visible(note)).collect(),
        }),
        ..Header::new(options, &facets, vec![Value { kind: "samples", unit: "count", times: None }])
    };
    columns.finish(&header)
}

/// The names of the profiles with their sides. A profile that is named twice has a number.
fn names(difference: &Difference<'_>) -> IndexSet<String> {
    let mut names = IndexSet::new();
    for (number, of) in difference.all().enumerate() {
        let side = if number < difference.before.len() { "before" } else { "after" };
        let name = format!("{side}: {}", visible(of.name));
        let numbered = (2..).map(|copy| format!("{name} ({copy})"));
        let unique = std::iter::once(name.clone()).chain(numbered).find(|name| !names.contains(name));
        names.extend(unique);
    }
    names
}
