//! The inlined calls of one function.

use gimli::AttributeValue;
use gimli::constants as dw;

use crate::abbreviations::{Abbreviations, Kind, Shape};
use crate::bytes::uleb;
use crate::flatten::Interval;
use crate::limits::{MAX_CALLS_OF_UNIT, MAX_DEPTH, MAX_INLINED, MAX_RANGES_OF_UNIT, Work};
use crate::names::EntryRef;
use crate::view::{Bounds, Value, View, small};

/// A function, or an inlined call in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Number of the call that it is in.
    pub parent: u32,
    /// How many calls it is in.
    pub depth: u32,
    /// The entry that has its name, or leads to it.
    pub origin: Option<EntryRef>,
    /// Where it is called.
    pub file: u64,
    pub line: u32,
    pub column: u32,
}

/// The inlined calls of a function. Number 0 is the function itself.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    pub calls: Vec<Call>,
    /// Where they are. The deepest wins, then the latest.
    pub intervals: Vec<Interval<(u32, u32)>>,
}

/// What may still be kept of a unit.
#[derive(Debug)]
pub(crate) struct Room {
    pub calls: usize,
    pub ranges: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { calls: MAX_CALLS_OF_UNIT, ranges: MAX_RANGES_OF_UNIT }
    }
}

impl Calls {
    /// Reads the function whose entry is at a position, in place of another one. What is behind damaged entries is missing.
    pub fn read(&mut self, view: &View<'_>, entry: usize, own: EntryRef, room: &mut Room, work: &mut Work) {
        let function = Call { parent: 0, depth: 0, origin: Some(own), file: 0, line: 0, column: 0 };
        self.calls.clear();
        self.calls.push(function);
        self.intervals.clear();
        let _ = self.scan(view, entry, own, room, work);
    }

    fn scan(
        &mut self,
        view: &View<'_>,
        entry: usize,
        own: EntryRef,
        room: &mut Room,
        work: &mut Work,
    ) -> Option<()> {
        let data = view.data();
        let mut at = entry;
        let function = view.shape(&mut at)??;
        view.abbreviations.skip(function, data, &mut at, view.head.encoding)?;
        if !function.has_children {
            return Some(());
        }
        // The calls that entries at each depth are in. Deeper entries are in the last one.
        let mut inside: Vec<u32> = vec![0];
        let mut depth = 1usize;
        // Entries from this depth on belong to another function.
        let mut foreign = usize::MAX;
        while work.take(1) {
            let number = uleb(data, &mut at)?;
            if number == 0 {
                depth -= 1;
                inside.truncate(depth.max(1));
                if depth == 0 {
                    return Some(());
                }
                if depth < foreign {
                    foreign = usize::MAX;
                }
                continue;
            }
            let shape = view.abbreviations.get(number)?;
            let attributes = at;
            let parent = inside.last().copied().unwrap_or(0);
            let mut current = parent;
            if shape.kind == Kind::Inlined && depth < foreign && depth <= MAX_DEPTH && room.calls > 0 {
                if let Some(number) = self.inlined(view, shape, &mut at, (parent, own), room, work)? {
                    current = number;
                }
            } else {
                view.abbreviations.skip(shape, data, &mut at, view.head.encoding)?;
            }
            if !shape.has_children {
                continue;
            }
            let is_skippable = matches!(shape.kind, Kind::Other | Kind::Type | Kind::Function);
            let sibling = if is_skippable { Abbreviations::sibling(shape, data, attributes) } else { None };
            let sibling = sibling.and_then(|sibling| view.head.start.checked_add(sibling));
            if let Some(sibling) = sibling.filter(|sibling| *sibling >= at) {
                at = sibling;
                continue;
            }
            depth += 1;
            if is_skippable {
                foreign = foreign.min(depth);
            }
            if inside.len() < MAX_DEPTH {
                inside.push(current);
            }
        }
        None
    }

    /// Reads an inlined call. Gives its number, or none if it has no code.
    fn inlined(
        &mut self,
        view: &View<'_>,
        shape: &Shape,
        at: &mut usize,
        (parent, own): (u32, EntryRef),
        room: &mut Room,
        work: &mut Work,
    ) -> Option<Option<u32>> {
        let depth = self.calls.get(parent as usize)?.depth + 1;
        let mut call = Call { parent, depth, origin: None, file: 0, line: 0, column: 0 };
        let mut bounds = Bounds::default();
        view.attributes(shape, at, work, |name, value| match name {
            dw::DW_AT_abstract_origin => call.origin = EntryRef::of(value, own, view.head.start),
            dw::DW_AT_call_file => call.file = file_of(value).unwrap_or(0),
            dw::DW_AT_call_line => call.line = small(value),
            dw::DW_AT_call_column => call.column = small(value),
            name => drop(bounds.take(name, value)),
        })?;
        if depth as usize > MAX_INLINED {
            return Some(None);
        }
        let (number, first) = (self.calls.len() as u32, self.intervals.len());
        view.ranges(&bounds, work, |range| {
            if room.ranges > 0 {
                room.ranges -= 1;
                let priority = (depth, number);
                self.intervals.push(Interval { start: range.start, end: range.end, priority, value: number });
            }
        });
        if self.intervals.len() == first {
            return Some(None);
        }
        room.calls = room.calls.saturating_sub(1);
        self.calls.push(call);
        Some(Some(number))
    }
}

/// The number of a file in the unit's line program.
fn file_of(value: Value<'_>) -> Option<u64> {
    match value {
        AttributeValue::FileIndex(index) => Some(index),
        other => other.udata_value(),
    }
}
