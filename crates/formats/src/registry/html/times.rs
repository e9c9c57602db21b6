//! When samples were taken: how many samples of each row lie in each part of the time, or how long its waits lasted there.

use std::collections::BTreeMap;

use profile::{Moment, Profile};
use serde::Serialize;

use super::columns::Columns;
use super::tree::Row;

/// Parts of the time that a timeline shows: the first of these that leaves no more entries than [`MAX_ENTRIES`], or the last.
const BINS: [u64; 3] = [600, 300, 150];
/// Parts of the time of all rows together.
const MAX_ENTRIES: usize = 1 << 20;

/// The parts of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Bins {
    bins: u64,
    /// Length of each, in ns.
    width: u64,
    /// What is counted in them: `samples`, or `time` in ns.
    of: &'static str,
}

/// Adds the times of the rows. None if the profile has none.
pub(super) fn add(columns: &mut Columns, profile: &Profile, rows: &[Row]) -> Option<Bins> {
    let last = profile.moments.iter().map(|moment| moment.at_ns).max()?;
    // A sample may lie a little before or behind the span of the capture.
    let span = profile.duration_ns.max(last).max(1).unsigned_abs();
    let of = if profile.moments.iter().any(|moment| moment.lasted_ns > 0) { "time" } else { "samples" };
    let mut row_of = vec![None; profile.samples.len()];
    for (number, row) in (0_u32..).zip(rows) {
        for sample in &row.samples {
            row_of[*sample as usize] = Some(number);
        }
    }
    let mut entries: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let mut chosen = None;
    for bins in BINS {
        let bins = Bins { bins, width: span.div_ceil(bins), of };
        chosen = Some(bins);
        entries.clear();
        for moment in &profile.moments {
            let Some(Some(row)) = row_of.get(moment.sample as usize) else { continue };
            bins.each_part(moment, |bin, count| {
                let entry = entries.entry((bin, *row)).or_default();
                *entry = entry.saturating_add(count);
            });
            if entries.len() > MAX_ENTRIES && BINS.last() != Some(&bins.bins) {
                break;
            }
        }
        if entries.len() <= MAX_ENTRIES {
            break;
        }
    }
    columns.close_numbers("time.bin", entries.keys().map(|(bin, _)| *bin));
    columns.numbers("time.row", entries.keys().map(|(_, row)| u64::from(*row)));
    columns.numbers("time.count", entries.into_values());
    chosen
}

impl Bins {
    /// Gives the parts of the time that a moment belongs to, with what it counts there.
    fn each_part(self, moment: &Moment, mut take: impl FnMut(u32, u64)) {
        let Self { bins, width, of } = self;
        let end = moment.at_ns.max(0).unsigned_abs();
        let bin_at = |time: u64| (time / width).min(bins - 1);
        if of == "samples" {
            return take(bin_at(end) as u32, 1);
        }
        // What was before the capture is in no part.
        let begin = end.saturating_sub(moment.lasted_ns);
        if begin == end {
            return;
        }
        for bin in bin_at(begin)..=bin_at(end - 1) {
            let to = if bin + 1 == bins { end } else { end.min((bin + 1) * width) };
            take(bin as u32, to - begin.max(bin * width));
        }
    }
}
