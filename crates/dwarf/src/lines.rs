//! Lines of a unit: which source line each address is of, and the paths of its files.

use std::ops::Range;

use gimli::{DebugLine, IncompleteLineProgram};

use crate::limits::{MAX_LINE_HEADER, MAX_PATH, MAX_ROWS, Work};
use crate::line_program::{Row, Sequence, run, run_sequence};
use crate::sections::Slice;
use crate::view::View;

/// The line program of a unit.
pub(crate) struct Lines<'a> {
    program: IncompleteLineProgram<Slice<'a>>,
}

impl<'a> Lines<'a> {
    /// Reads the header. `None` if there is no program, or if it is damaged.
    pub fn open(view: &View<'a>) -> Option<Self> {
        Self::at(view.space.dwarf.debug_line, &view.root, view.head.encoding.address_size)
    }

    /// The same of a unit of which only the root was read.
    pub fn at(section: DebugLine<Slice<'a>>, root: &crate::view::Root<'a>, address_size: u8) -> Option<Self> {
        let offset = root.lines?;
        let bytes = gimli::Section::reader(&section).slice();
        if header_length(bytes.get(offset.0..)?)? > MAX_LINE_HEADER {
            return None;
        }
        let program = section.program(offset, address_size, root.directory, root.name).ok()?;
        Some(Self { program })
    }

    /// The rows that have addresses in sorted ranges, sorted and without overlaps, in place of others. `known`: the sequences of the
    /// program, once it was run to its end.
    pub fn rows(
        &self,
        wanted: &[Range<u64>],
        known: &mut Option<Vec<Sequence>>,
        rows: &mut Vec<Row>,
        work: &mut Work,
    ) {
        rows.clear();
        let mut at = 0;
        // Between this and the next wanted range nothing is wanted.
        let mut unwanted = 0..wanted.first().map_or(u64::MAX, |range| range.start);
        let mut take = |row: Row| {
            if row.start >= unwanted.start && row.end <= unwanted.end {
                return true;
            }
            let is_before = |range: &Range<u64>| range.end <= row.start;
            if wanted.get(at).is_some_and(is_before) {
                at += 1;
            }
            let is_there = wanted.get(at).is_none_or(|range| !is_before(range));
            if !is_there || at.checked_sub(1).is_some_and(|last| !is_before(&wanted[last])) {
                at = wanted.partition_point(is_before);
            }
            if wanted.get(at).is_some_and(|range| range.start < row.end) {
                rows.push(row);
            } else {
                let before = at.checked_sub(1).and_then(|last| wanted.get(last));
                unwanted =
                    before.map_or(0, |range| range.end)..wanted.get(at).map_or(u64::MAX, |range| range.start);
            }
            rows.len() < MAX_ROWS
        };
        let header = self.program.header();
        match known {
            Some(known) => {
                let is_wanted = |sequence: &&Sequence| {
                    let next = wanted.partition_point(|range| range.end <= sequence.addresses.start);
                    wanted.get(next).is_some_and(|range| range.start < sequence.addresses.end)
                };
                known
                    .iter()
                    .filter(is_wanted)
                    .all(|sequence| run_sequence(header, sequence, work, &mut take));
            }
            None => {
                let mut sequences = Vec::new();
                if run(header, &mut sequences, work, take) {
                    sequences.shrink_to_fit();
                    *known = Some(sequences);
                }
            }
        }
        rows.sort_by_key(|row| row.start);
        let mut end = 0;
        rows.retain_mut(|row| {
            row.start = row.start.max(end);
            end = end.max(row.end);
            row.start < row.end
        });
    }

    /// The address ranges of all sequences, at most so many.
    pub fn sequences(&self, most: usize, work: &mut Work) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        run(self.program.header(), &mut Vec::new(), work, |row| {
            match ranges.last_mut() {
                Some(last) if last.end == row.start => last.end = row.end,
                _ => ranges.push(row.start..row.end),
            }
            ranges.len() < most
        });
        ranges
    }

    /// The path of a file, with the directories before it as far as they are known.
    pub fn path(&self, view: &View<'a>, file: u64, out: &mut Vec<u8>) -> Option<()> {
        out.clear();
        let header = self.program.header();
        let entry = header.file(file)?;
        let name = view.string(entry.path_name())?.slice();
        if name.first() != Some(&b'/') {
            let directory =
                entry.directory(header).and_then(|value| view.string(value)).map(|name| name.slice());
            let directory = directory.unwrap_or_default();
            let own = view.root.directory.map(|name| name.slice()).unwrap_or_default();
            if directory.first() != Some(&b'/') {
                // The directory of number 0 is the unit's own.
                join(out, own);
            }
            if directory != own || out.is_empty() {
                join(out, directory);
            }
        }
        join(out, name);
        Some(())
    }
}

fn join(out: &mut Vec<u8>, part: &[u8]) {
    if !out.is_empty() && out.last() != Some(&b'/') && !part.is_empty() {
        out.push(b'/');
    }
    out.extend_from_slice(&part[..part.len().min(MAX_PATH)]);
}

/// What the header of a line program says of its own length.
fn header_length(program: &[u8]) -> Option<u64> {
    let is_64 = program.get(..4)? == [0xff; 4];
    let version_at = if is_64 { 12 } else { 4 };
    let version = u16::from_le_bytes(*program.get(version_at..)?.first_chunk()?);
    let at = version_at + if version >= 5 { 4 } else { 2 };
    let rest = program.get(at..)?;
    Some(match is_64 {
        true => u64::from_le_bytes(*rest.first_chunk()?),
        false => u32::from_le_bytes(*rest.first_chunk()?).into(),
    })
}
