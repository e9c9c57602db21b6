//! The functions of a unit: where they are, and where their entries are.

use std::cmp::Reverse;

use crate::abbreviations::{Abbreviations, Kind};
use crate::bytes::uleb;
use crate::code::Code;
use crate::flatten::{self, Interval, Piece};
use crate::limits::{MAX_RANGES_OF_UNIT, Work};
use crate::view::{Bounds, View};

/// One address range of a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FunctionRange {
    pub start: u64,
    /// Position of the entry, relative to the unit.
    pub entry: u32,
    /// Whether the function has other ranges.
    pub is_part: bool,
}

/// The one that starts last, then the shortest, then the first.
type Priority = (u64, Reverse<u64>, Reverse<u32>);

/// All functions of a unit that have code.
#[derive(Debug)]
pub(crate) struct Functions {
    pub ranges: Vec<FunctionRange>,
    /// The ranges where each address belongs to one of them. The values are positions in [`Self::ranges`].
    pieces: Vec<Piece>,
    /// Whether entries inside of functions and types were looked at too. There are functions in functions: methods of local classes.
    pub is_complete: bool,
}

/// Memory that is used for the functions of one unit after the other.
#[derive(Debug, Default)]
pub(crate) struct FunctionsRoom {
    ranges: Vec<FunctionRange>,
    intervals: Vec<Interval<Priority>>,
}

impl Functions {
    /// Reads the entries of a unit. What is behind damaged entries is missing.
    pub fn read(
        view: &View<'_>,
        code: &Code<'_>,
        is_complete: bool,
        room: &mut FunctionsRoom,
        work: &mut Work,
    ) -> Self {
        room.intervals.clear();
        let ranges = std::mem::take(&mut room.ranges);
        let mut this = Self { ranges, pieces: Vec::new(), is_complete };
        let _ = this.scan(view, code, &mut room.intervals, work);
        this.pieces = flatten::flatten(&mut room.intervals);
        let kept = this.ranges.clone();
        room.ranges = std::mem::replace(&mut this.ranges, kept);
        room.ranges.clear();
        this
    }

    fn scan(
        &mut self,
        view: &View<'_>,
        code: &Code<'_>,
        intervals: &mut Vec<Interval<Priority>>,
        work: &mut Work,
    ) -> Option<()> {
        let (data, start) = (view.data(), view.head.start);
        let mut at = view.head.entries;
        let mut depth = 0u32;
        loop {
            let entry = at;
            let number = uleb(data, &mut at)?;
            if number == 0 {
                if depth <= 1 {
                    return Some(());
                }
                depth -= 1;
                continue;
            }
            let shape = view.abbreviations.get(number)?;
            let attributes = at;
            if shape.kind == Kind::Function {
                let mut bounds = Bounds::default();
                view.attributes(shape, &mut at, work, |name, value| {
                    bounds.take(name, value);
                })?;
                let (first, entry) = (self.ranges.len(), u32::try_from(entry - start).ok()?);
                view.ranges(&bounds, work, |range| {
                    if code.has(range.start) && self.ranges.len() < MAX_RANGES_OF_UNIT {
                        let number = self.ranges.len() as u32;
                        self.ranges.push(FunctionRange { start: range.start, entry, is_part: false });
                        let priority = (range.start, Reverse(range.end), Reverse(number));
                        intervals.push(Interval {
                            start: range.start,
                            end: range.end,
                            priority,
                            value: number,
                        });
                    }
                });
                if let [_, _, ..] = &self.ranges[first..] {
                    self.ranges[first..].iter_mut().for_each(|range| range.is_part = true);
                }
            } else {
                view.abbreviations.skip(shape, data, &mut at, view.head.encoding)?;
            }
            let sibling = match shape.kind {
                kind if kind.is_scope() => None,
                _ if self.is_complete || !shape.has_children => None,
                _ => Abbreviations::sibling(shape, data, attributes),
            };
            match sibling.and_then(|sibling| start.checked_add(sibling)).filter(|sibling| *sibling >= at) {
                Some(sibling) => at = sibling,
                None => depth += u32::from(shape.has_children),
            }
            // A root without children.
            if depth == 0 || !work.take(1) {
                return None;
            }
        }
    }

    /// The range and the piece of it that an address is in.
    pub fn find(&self, address: u64) -> Option<(&FunctionRange, &Piece)> {
        let piece = flatten::find(&self.pieces, address)?;
        Some((self.ranges.get(piece.value as usize)?, piece))
    }
}
