//! Which unit has the code at an address.

use std::cmp::Reverse;
use std::ops::Range;

use crate::code::Code;
use crate::flatten::{self, Interval, Piece};
use crate::limits::{MAX_RANGES_OF_ENTRY, MAX_RANGES_OF_UNIT, MAX_TRIES, Work};
use crate::lines::Lines;
use crate::view::{Root, Space};

/// The address ranges of all units, from their root entries alone.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// The values are numbers of units.
    pieces: Vec<Piece>,
    /// Ranges of which some addresses belong to other units too, and the units. Sorted by start.
    shared: Vec<(Range<u64>, u32)>,
    /// The largest end of each range in [`Self::shared`] and those before it.
    reach: Vec<u64>,
    /// Units whose root entry is damaged.
    pub damaged: u64,
}

impl Index {
    pub fn read(space: &Space<'_>, code: &Code<'_>, work: &mut Work) -> Self {
        let mut this = Self::default();
        let mut intervals = Vec::new();
        for (number, head) in (0..).zip(&space.units.heads) {
            if head.is_type_unit {
                continue;
            }
            let Some(root) = Root::read(space, head, work) else {
                this.damaged += 1;
                continue;
            };
            let mut enter = |range: Range<u64>| {
                if code.has(range.start) && intervals.len() < MAX_RANGES_OF_UNIT {
                    let priority = (range.start, Reverse(range.end), Reverse(number));
                    intervals.push(Interval { start: range.start, end: range.end, priority, value: number });
                }
            };
            if root.bounds.ranges.is_some() || root.bounds.high_pc.is_some() {
                let _ = root.ranges(space, head, &root.bounds, work, &mut enter);
            } else if !root.is_partial {
                let lines = Lines::at(space.dwarf.debug_line, &root, head.encoding.address_size);
                let sequences = lines.map(|lines| lines.sequences(MAX_RANGES_OF_ENTRY, work));
                sequences.into_iter().flatten().for_each(enter);
            }
        }
        this.pieces = flatten::flatten(&mut intervals);
        let is_shared = |interval: &Interval<_>| {
            let piece = flatten::find(&this.pieces, interval.start);
            piece.is_none_or(|piece| piece.value != interval.value || piece.end < interval.end)
        };
        intervals.retain(is_shared);
        this.shared =
            intervals.iter().map(|interval| (interval.start..interval.end, interval.value)).collect();
        this.shared.sort_by_key(|(range, unit)| (range.start, *unit));
        let mut reach = 0;
        let ends = this.shared.iter().map(|(range, _)| range.end);
        this.reach = ends
            .map(|end| {
                reach = end.max(reach);
                reach
            })
            .collect();
        this
    }

    /// The unit that has the code at an address.
    pub fn find(&self, address: u64) -> Option<u32> {
        flatten::find(&self.pieces, address).map(|piece| piece.value)
    }

    /// Other units that claim to have an address, some at most.
    pub fn others(&self, address: u64, work: &mut Work) -> Vec<u32> {
        let first = self.find(address);
        let mut found: Vec<u32> = Vec::new();
        let behind = self.shared.partition_point(|(range, _)| range.start <= address);
        let before = self.shared[..behind].iter().zip(&self.reach).rev();
        for ((range, unit), _) in before.take_while(|(_, reach)| **reach > address) {
            if range.contains(&address) && Some(*unit) != first {
                found.push(*unit);
            }
            if !work.take(1) {
                break;
            }
        }
        found.sort_unstable();
        found.dedup();
        found.truncate(MAX_TRIES);
        found
    }

    pub fn heap_bytes(&self) -> usize {
        self.pieces.capacity() * size_of::<Piece>()
            + self.shared.capacity() * (size_of::<(Range<u64>, u32)>() + size_of::<u64>())
    }
}
