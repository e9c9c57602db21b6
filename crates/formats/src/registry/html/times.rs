//! When samples were taken: how many samples of each row lie in each part of the time.

use std::collections::BTreeMap;

use profile::Profile;
use serde::Serialize;

use super::columns::Columns;
use super::tree::Row;

/// Parts of the time that a timeline shows.
const BINS: u64 = 600;

/// The parts of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Bins {
    bins: u64,
    /// Length of each, in ns.
    width: u64,
}

/// Adds the times of the rows. None if the profile has none.
pub(super) fn add(columns: &mut Columns, profile: &Profile, rows: &[Row]) -> Option<Bins> {
    let last = profile.moments.iter().map(|moment| moment.at_ns).max()?;
    // A sample may lie a little before or behind the span of the capture.
    let span = profile.duration_ns.max(last.saturating_add(1)).max(1).unsigned_abs();
    let bins = Bins { bins: BINS, width: span.div_ceil(BINS) };
    let mut row_of = vec![None; profile.samples.len()];
    for (number, row) in (0_u32..).zip(rows) {
        for sample in &row.samples {
            row_of[*sample as usize] = Some(number);
        }
    }
    let mut counts: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for moment in &profile.moments {
        let Some(Some(row)) = row_of.get(moment.sample as usize) else { continue };
        let bin = (moment.at_ns.max(0).unsigned_abs() / bins.width).min(BINS - 1);
        *counts.entry((bin as u32, *row)).or_default() += 1;
    }
    columns.close_numbers("time.bin", counts.keys().map(|(bin, _)| *bin));
    columns.numbers("time.row", counts.keys().map(|(_, row)| u64::from(*row)));
    columns.numbers("time.count", counts.into_values());
    Some(bins)
}
