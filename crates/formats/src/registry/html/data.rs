//! The data block of a report: all samples of a profile with all their values.

use std::io;

use profile::{Profile, ValueType};

use super::columns::Columns;
use super::facets::Facets;
use super::header::{Header, Value, comments};
use super::stacks::Stacks;
use super::times;
use super::tree::Row;
use crate::EncodeOptions;
use crate::named_frames::NamedFrames;

/// The data of a profile, compressed.
pub(super) fn block(profile: &Profile, options: &EncodeOptions) -> io::Result<Vec<u8>> {
    let mut stacks = Stacks::new(Facets::of_report(profile));
    let frames = stacks.frames(profile, NamedFrames::new(profile, options.merge));
    for (number, sample) in (0..).zip(&profile.samples) {
        let values: Vec<u64> = sample.values.iter().map(|value| u64::try_from(*value).unwrap_or(0)).collect();
        stacks.add(&frames, (0, number), sample, &values);
    }
    let mut columns = Columns::default();
    let (rows, facets) = stacks.finish(&mut columns);
    let values = add_values(&mut columns, &profile.sample_types, &rows);
    let (ledger, comments) = comments(profile);
    let header = Header {
        duration_ns: profile.duration_ns,
        shown: options.value_index(profile),
        ledger,
        comments,
        time: times::add(&mut columns, profile, &rows),
        ..Header::new(options, &facets, values)
    };
    columns.finish(&header)
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
